-- The gradient of attention.

op {[[attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor mask,
      Tensor result, Tensor norm, float dropout, bool causal, float scale, int seed, int block,
      int state, bool want_query, bool want_key, bool want_value, bool want_mask)
      -> (Tensor query, Tensor key, Tensor value, Tensor mask)]],
    internal = true, composite = true}
