; Results of queries of timestamps, as vkCmdCopyQueryPoolResults copies them: every lane copies one.
; Arguments: address of the first query, address of the first result and their distance (8 bytes each), queries, flags (4 bytes each).
; Flags are those of VkQueryResultFlagBits: 1 for 64 bits, 2 to wait, 4 for the availability behind each value.
; A query is its value, and at byte 8 a word that is 1 once the value is there.
.workgroup 64, 1, 1
.function main
    arguments d0
    system.global_id_x w0
    load.w1 w1, [d0 + 24]
    cmp.i32.lt_u p0, w0, w1
    if p0
        load.d1 d1, [d0]
        index d1, d1, w0, 16
        load.d1 d2, [d0 + 16]
        widen_u d3, w0
        mul.i64 d2, d2, d3
        load.d1 d3, [d0 + 8]
        add.i64 d2, d2, d3
        load.w1 w2, [d0 + 28]
        and.i32 w5, w2, 2
        cmp.i32.eq p1, w5, 0
        mov.i32 w3, 0
        loop
            atomic.i32.add.device.acquire w4, [d1 + 8], w3
            cmp.i32.ne p0, w4, 0
            or.b1 p2, p0, p1
            break_if p2
        end_loop
        and.i32 w5, w2, 1
        cmp.i32.ne p1, w5, 0
        ; What is not there leaves the value as it was.
        if p0
            if p1
                load.d1 d3, [d1]
                store.d1 [d2], d3
            else
                load.w1 w5, [d1]
                store.w1 [d2], w5
            end_if
        end_if
        and.i32 w5, w2, 4
        cmp.i32.ne p0, w5, 0
        if p0
            if p1
                widen_u d3, w4
                store.d1 [d2 + 8], d3
            else
                store.w1 [d2 + 4], w4
            end_if
        end_if
    end_if
    exit
