.workgroup 32, 1, 1
arguments d0
system.lane_id w0
index d0, d0, w0, 4
load.w1 w1, [d0]
add.i32 w1, w1, 1
store.w1 [d0], w1
exit
