@group(0) @binding(0) var<storage, read> numbers: array<u32>;
@group(0) @binding(1) var<storage, read_write> sums: array<u32>;
var<workgroup> parts: array<u32, 256>;

// The sum of the 1024 numbers of a workgroup.
@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let first = group.x * 1024u + lane;
    parts[lane] = numbers[first] + numbers[first + 256u] + numbers[first + 512u] + numbers[first + 768u];
    workgroupBarrier();
    for (var half = 128u; half > 0u; half >>= 1u) {
        if lane < half {
            parts[lane] += parts[lane + half];
        }
        workgroupBarrier();
    }
    if lane == 0u {
        sums[group.x] = parts[0];
    }
}
