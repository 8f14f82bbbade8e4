-- The operators of scaled dot-product attention.

op {[[scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor attn_mask=nil,
      float dropout_p=0.0, bool is_causal=false, *, float scale=nil, bool enable_gqa=false,
      Generator generator=nil) -> Tensor]],
    module = "nn.functional", also = true, method = false, composite = true,
    doc = [[softmax(query @ key^T * scale + mask) @ value for query (..., L, E), key (..., S, E) and
    value (..., S, V): (..., L, V). attn_mask is broadcast to (..., L, S): a floating mask is added
    to the scores, a bool mask is true where a query may see a key. With is_causal query i sees the
    keys up to i; attn_mask must then be nil. A query that may see no key gets zeros. scale is 1 /
    sqrt(E) if nil. Weights are dropped with probability dropout_p, always. With enable_gqa the
    heads, dimension -3, of key and value may be fewer: each serves as many heads of query in a row.
    The L x S weights are never stored, neither here nor for the gradient, which computes them once
    more: memory grows with L + S. Second derivatives, and the gradient of a mask, do take L x S.]],
    autocast = "lower",
    examples = {"T(2, 3, 4), T(2, 5, 4), T(2, 5, 3)", "T(3, 4), T(5, 4), T(5, 2), M(3, 5)",
                "T(2, 2, 3, 4), T(2, 2, 5, 4), T(2, 2, 5, 4), T(2, 1, 3, 5)",
                "T(2, 4, 3), T(2, 4, 3), T(2, 4, 3), nil, 0, true, {scale = 0.7}",
                "T(1, 4, 3, 2), T(1, 2, 3, 2), T(1, 2, 3, 2), {enable_gqa = true}"}}
example("scaled_dot_product_attention", [[
   local q = torch.zeros(1, 1, 2, 4) -- (batch, heads, length, features)
   local v = torch.tensor {{{{1.0}, {3.0}}}}
   local F = torch.nn.functional
   print(F.scaled_dot_product_attention(q, q, v, {is_causal = true}):flatten())
   --> tensor([1., 2.])]])

-- Tensors are (batch, heads, positions, features); the mask is (batch or 1, heads or 1, L or 1, S).
-- The derivative recomputes the weights from `norm`. The arguments seed, block and state are the
-- parts of a tli_Stretch, which gives the position of dropout's random numbers.
op {[[attention(Tensor query, Tensor key, Tensor value, Tensor mask, float dropout, bool causal,
      float scale, int seed, int block, Tensor state) -> (Tensor result, Tensor norm)]],
    name = "scaled_dot_product_attention", node = "ScaledDotProductFlashAttention", internal = true,
    nograd = {norm = true},
    flops = "2 * numel(query) * size(key, -2) + 2 * numel(result) * size(key, -2)",
    grad = {["query, key, value, mask"] = [[attention_backward(grad_result, query, key, value, mask,
    result, norm, dropout, causal, scale, seed, block, state, needs(query), needs(key),
    needs(value), needs(mask))]]}}
