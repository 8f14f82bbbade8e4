-- Attention over caches of keys and values, for steps of generation.

op {[[_cached_attention(Tensor query, Tensor key, Tensor value, Tensor[] stored, int[] used,
      int[] counts, *, float scale=nil, int window=0) -> Tensor]],
    doc = [[Appends new keys and values to the caches of several sequences, in place, and
    returns the attention of each new query to its own sequence's keys, up to the query's own
    position. query is (1, H, N, D) float32; key and value are (1, G, N, D), where H is a
    multiple of G. The first counts[1] positions belong to the first sequence, and so on;
    used[i] is the number of keys that sequence i has already. stored lists each sequence's keys
    and values (1, G, capacity, D), all float32 or all float16. If they are int8, each 32
    elements share a scale, and the list has each sequence's keys, values, scales of keys and
    scales of values (1, G, capacity, D / 32) float16. If window is positive, a query sees only
    the last window keys. scale is 1 / sqrt(D) if nil.]],
    composite = true, method = false, out = false,
    nondiff = "the cached keys and values have no gradient"}
