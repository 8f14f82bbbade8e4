-- Computes the gradient of attention.

op {[[attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor mask,
      Tensor result, Tensor norm, float dropout, bool causal, float scale, int seed, int block,
      Tensor state, bool want_query, bool want_key, bool want_value, bool want_mask)
      -> (Tensor query, Tensor key, Tensor value, Tensor mask)]],
    internal = true, composite = true,
    -- The kernel recomputes the scores, and each product of the forward pass has two gradients. The
    -- FLOPs are counted as in sdpa_backward_flop_count of torch.utils.flop_counter, except that
    -- unneeded gradients are not counted.
    flops = [[2 * numel(query) * size(key, -2)
          * (1 + choose(want_query, 1, 0) + choose(want_key, 1, 0))
       + 2 * numel(grad) * size(key, -2) * (1 + choose(want_value, 1, 0))]]}
