@group(0) @binding(0) var<storage, read> words: array<u32>;
@group(0) @binding(1) var<storage, read_write> counts: array<atomic<u32>>;
var<workgroup> local: array<atomic<u32>, 256>;

// How often each value is among the 16384 bytes of a workgroup.
@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) group: vec3<u32>) {
    atomicStore(&local[lane], 0u);
    workgroupBarrier();
    for (var place = lane; place < 4096u; place += 256u) {
        let word = words[group.x * 4096u + place];
        atomicAdd(&local[word & 0xffu], 1u);
        atomicAdd(&local[(word >> 8u) & 0xffu], 1u);
        atomicAdd(&local[(word >> 16u) & 0xffu], 1u);
        atomicAdd(&local[word >> 24u], 1u);
    }
    workgroupBarrier();
    atomicStore(&counts[group.x * 256u + lane], atomicLoad(&local[lane]));
}
