@group(0) @binding(0) var<storage, read> state: array<u32>;
@group(0) @binding(1) var<storage, read_write> stream: array<u32>;

fn rotated(value: u32, count: u32) -> u32 {
    return (value << count) | (value >> (32u - count));
}

fn quarter(s: ptr<function, array<u32, 16>>, a: u32, b: u32, c: u32, d: u32) {
    (*s)[a] += (*s)[b];
    (*s)[d] = rotated((*s)[d] ^ (*s)[a], 16u);
    (*s)[c] += (*s)[d];
    (*s)[b] = rotated((*s)[b] ^ (*s)[c], 12u);
    (*s)[a] += (*s)[b];
    (*s)[d] = rotated((*s)[d] ^ (*s)[a], 8u);
    (*s)[c] += (*s)[d];
    (*s)[b] = rotated((*s)[b] ^ (*s)[c], 7u);
}

// A block of the key stream of RFC 8439 for each invocation, whose number is the counter.
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    var s: array<u32, 16>;
    for (var word = 0u; word < 16u; word++) {
        s[word] = state[word];
    }
    s[12] = id.x;
    for (var round = 0u; round < 10u; round++) {
        quarter(&s, 0u, 4u, 8u, 12u);
        quarter(&s, 1u, 5u, 9u, 13u);
        quarter(&s, 2u, 6u, 10u, 14u);
        quarter(&s, 3u, 7u, 11u, 15u);
        quarter(&s, 0u, 5u, 10u, 15u);
        quarter(&s, 1u, 6u, 11u, 12u);
        quarter(&s, 2u, 7u, 8u, 13u);
        quarter(&s, 3u, 4u, 9u, 14u);
    }
    for (var word = 0u; word < 16u; word++) {
        var start = state[word];
        if word == 12u {
            start = id.x;
        }
        stream[id.x * 16u + word] = s[word] + start;
    }
}
