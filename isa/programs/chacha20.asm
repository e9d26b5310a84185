; ChaCha20 (RFC 8439): every lane makes one block of 64 bytes of the key stream and combines it with the data.
; Arguments: address of the data (8 bytes), counter of the first block, blocks, key (8 words), nonce (3 words).
.workgroup 64, 1, 1
.registers 36, 4, 1
.function main
    arguments d0
    system.global_id_x w32
    load.w1 w33, [d0 + 12]
    cmp.i32.lt_u p0, w32, w33
    if p0
        load.d1 d1, [d0]
        index d1, d1, w32, 64
        ; The block before the rounds: constants, key, counter and nonce in w16 to w31.
        mov.i32 w16, 0x61707865
        mov.i32 w17, 0x3320646e
        mov.i32 w18, 0x79622d32
        mov.i32 w19, 0x6b206574
        load.w4 w20, [d0 + 16]
        load.w4 w24, [d0 + 32]
        load.w1 w28, [d0 + 8]
        add.i32 w28, w28, w32
        load.w1 w29, [d0 + 48]
        load.w1 w30, [d0 + 52]
        load.w1 w31, [d0 + 56]
        mov.i32 w0, w16
        mov.i32 w1, w17
        mov.i32 w2, w18
        mov.i32 w3, w19
        mov.i32 w4, w20
        mov.i32 w5, w21
        mov.i32 w6, w22
        mov.i32 w7, w23
        mov.i32 w8, w24
        mov.i32 w9, w25
        mov.i32 w10, w26
        mov.i32 w11, w27
        mov.i32 w12, w28
        mov.i32 w13, w29
        mov.i32 w14, w30
        mov.i32 w15, w31
        mov.i32 w34, 0
        loop
            ; A column round.
            add.i32 w0, w0, w4
            xor.i32 w12, w12, w0
            rotl.i32 w12, w12, 16
            add.i32 w8, w8, w12
            xor.i32 w4, w4, w8
            rotl.i32 w4, w4, 12
            add.i32 w0, w0, w4
            xor.i32 w12, w12, w0
            rotl.i32 w12, w12, 8
            add.i32 w8, w8, w12
            xor.i32 w4, w4, w8
            rotl.i32 w4, w4, 7
            add.i32 w1, w1, w5
            xor.i32 w13, w13, w1
            rotl.i32 w13, w13, 16
            add.i32 w9, w9, w13
            xor.i32 w5, w5, w9
            rotl.i32 w5, w5, 12
            add.i32 w1, w1, w5
            xor.i32 w13, w13, w1
            rotl.i32 w13, w13, 8
            add.i32 w9, w9, w13
            xor.i32 w5, w5, w9
            rotl.i32 w5, w5, 7
            add.i32 w2, w2, w6
            xor.i32 w14, w14, w2
            rotl.i32 w14, w14, 16
            add.i32 w10, w10, w14
            xor.i32 w6, w6, w10
            rotl.i32 w6, w6, 12
            add.i32 w2, w2, w6
            xor.i32 w14, w14, w2
            rotl.i32 w14, w14, 8
            add.i32 w10, w10, w14
            xor.i32 w6, w6, w10
            rotl.i32 w6, w6, 7
            add.i32 w3, w3, w7
            xor.i32 w15, w15, w3
            rotl.i32 w15, w15, 16
            add.i32 w11, w11, w15
            xor.i32 w7, w7, w11
            rotl.i32 w7, w7, 12
            add.i32 w3, w3, w7
            xor.i32 w15, w15, w3
            rotl.i32 w15, w15, 8
            add.i32 w11, w11, w15
            xor.i32 w7, w7, w11
            rotl.i32 w7, w7, 7
            ; A diagonal round.
            add.i32 w0, w0, w5
            xor.i32 w15, w15, w0
            rotl.i32 w15, w15, 16
            add.i32 w10, w10, w15
            xor.i32 w5, w5, w10
            rotl.i32 w5, w5, 12
            add.i32 w0, w0, w5
            xor.i32 w15, w15, w0
            rotl.i32 w15, w15, 8
            add.i32 w10, w10, w15
            xor.i32 w5, w5, w10
            rotl.i32 w5, w5, 7
            add.i32 w1, w1, w6
            xor.i32 w12, w12, w1
            rotl.i32 w12, w12, 16
            add.i32 w11, w11, w12
            xor.i32 w6, w6, w11
            rotl.i32 w6, w6, 12
            add.i32 w1, w1, w6
            xor.i32 w12, w12, w1
            rotl.i32 w12, w12, 8
            add.i32 w11, w11, w12
            xor.i32 w6, w6, w11
            rotl.i32 w6, w6, 7
            add.i32 w2, w2, w7
            xor.i32 w13, w13, w2
            rotl.i32 w13, w13, 16
            add.i32 w8, w8, w13
            xor.i32 w7, w7, w8
            rotl.i32 w7, w7, 12
            add.i32 w2, w2, w7
            xor.i32 w13, w13, w2
            rotl.i32 w13, w13, 8
            add.i32 w8, w8, w13
            xor.i32 w7, w7, w8
            rotl.i32 w7, w7, 7
            add.i32 w3, w3, w4
            xor.i32 w14, w14, w3
            rotl.i32 w14, w14, 16
            add.i32 w9, w9, w14
            xor.i32 w4, w4, w9
            rotl.i32 w4, w4, 12
            add.i32 w3, w3, w4
            xor.i32 w14, w14, w3
            rotl.i32 w14, w14, 8
            add.i32 w9, w9, w14
            xor.i32 w4, w4, w9
            rotl.i32 w4, w4, 7
            add.i32 w34, w34, 1
            cmp.i32.ge_u p0, w34, 10
            break_if p0
        end_loop
        add.i32 w0, w0, w16
        add.i32 w1, w1, w17
        add.i32 w2, w2, w18
        add.i32 w3, w3, w19
        add.i32 w4, w4, w20
        add.i32 w5, w5, w21
        add.i32 w6, w6, w22
        add.i32 w7, w7, w23
        add.i32 w8, w8, w24
        add.i32 w9, w9, w25
        add.i32 w10, w10, w26
        add.i32 w11, w11, w27
        add.i32 w12, w12, w28
        add.i32 w13, w13, w29
        add.i32 w14, w14, w30
        add.i32 w15, w15, w31
        load.w4 w16, [d1 + 0]
        xor.i32 w0, w0, w16
        xor.i32 w1, w1, w17
        xor.i32 w2, w2, w18
        xor.i32 w3, w3, w19
        store.w4 [d1 + 0], w0
        load.w4 w16, [d1 + 16]
        xor.i32 w4, w4, w16
        xor.i32 w5, w5, w17
        xor.i32 w6, w6, w18
        xor.i32 w7, w7, w19
        store.w4 [d1 + 16], w4
        load.w4 w16, [d1 + 32]
        xor.i32 w8, w8, w16
        xor.i32 w9, w9, w17
        xor.i32 w10, w10, w18
        xor.i32 w11, w11, w19
        store.w4 [d1 + 32], w8
        load.w4 w16, [d1 + 48]
        xor.i32 w12, w12, w16
        xor.i32 w13, w13, w17
        xor.i32 w14, w14, w18
        xor.i32 w15, w15, w19
        store.w4 [d1 + 48], w12
    end_if
    exit
