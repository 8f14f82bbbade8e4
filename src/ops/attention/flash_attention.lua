-- Attention operators for callers that compute results for parts of the keys and combine them. For
-- example, each rank may have one part of the keys.

op {[[_scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value, *,
      bool is_causal=false, float scale=nil) -> (Tensor result, Tensor logsumexp)]],
    doc = [[scaled_dot_product_attention of query (N, H, L, E), key (N, G, S, E) and value (N, G, S,
    V), and the logarithm of the sum of each query's exponential scores, (N, H, L): float64 for
    float64 inputs, else float32. H is a multiple of G. Results for parts of the keys are put
    together by these logarithms: with w = sigmoid(logsumexp_2 - logsumexp_1) they are result_1 + w
    * (result_2 - result_1) and logaddexp(logsumexp_1, logsumexp_2).]],
    composite = true, method = false, out = false, nograd = {logsumexp = true},
    autocast = "lower", gradcheck = false,
    nondiff = "_scaled_dot_product_flash_attention_backward has its gradients",
    examples = {"T(1, 2, 3, 4), T(1, 2, 5, 4), T(1, 2, 5, 3)",
                "T(2, 4, 3, 2), T(2, 2, 3, 2), T(2, 2, 3, 2), {is_causal = true, scale = 0.7}"}}
op {[[_scaled_dot_product_flash_attention_backward(Tensor grad_out, Tensor query, Tensor key,
      Tensor value, Tensor result, Tensor logsumexp, *, bool is_causal=false, float scale=nil)
      -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)]],
    doc = [[Computes the gradients of _scaled_dot_product_flash_attention. If key and value hold
    only a part of the keys, result and logsumexp are those of all keys, and the caller adds up the
    parts' gradients of query.]],
    composite = true, method = false, out = false, nondiff = "a gradient",
    examples = {[[T(1, 2, 3, 3), T(1, 2, 3, 4), T(1, 2, 5, 4), T(1, 2, 5, 3), T(1, 2, 3, 3),
      T(1, 2, 3)]]}}
