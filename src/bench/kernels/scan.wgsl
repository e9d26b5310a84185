@group(0) @binding(0) var<storage, read> numbers: array<u32>;
@group(0) @binding(1) var<storage, read_write> sums: array<u32>;
var<workgroup> parts: array<u32, 256>;

// The sums of the first, the first two, and so on, of the 256 numbers of a workgroup.
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    parts[lane] = numbers[id.x];
    workgroupBarrier();
    for (var distance = 1u; distance < 256u; distance <<= 1u) {
        var before = 0u;
        if lane >= distance {
            before = parts[lane - distance];
        }
        workgroupBarrier();
        parts[lane] += before;
        workgroupBarrier();
    }
    sums[id.x] = parts[lane];
}
