-- Operators for rotary position embedding.

op {[[rotary_embedding(Tensor input, Tensor cos, Tensor sin, bool interleaved=true) -> Tensor]],
    module = "nn.functional", method = false, composite = true,
    doc = [[Rotates pairs of features (a, b) along the last dimension of input by angles, given by
    their cosines and sines, to (a cos - b sin, b cos + a sin). cos and sin have one shape, which,
    but for its last size R / 2, broadcasts to input's: (S, R / 2) for queries and keys (B, H, S,
    D), (S, 1, R / 2) for (B, S, H, D). Pairs are neighbours, or, unless interleaved, feature i and
    feature i + R / 2. Features after the first R stay as they are. Half types are computed in
    float32, and cos and sin may be float32 beside them.]],
    examples = {"T(2, 3, 4), T(3, 2), T(3, 2)", "T(2, 3, 4), T(3, 2), T(3, 2), false",
                "T(2, 3, 2, 6), T(3, 1, 2), T(3, 1, 2)", "T(2, 7), T(3), T(3), false",
                "T(3, 2), T(1), T(1)"}}
op {[[rotate_pairs(Tensor input, Tensor cos, Tensor sin, bool interleaved, bool back) -> Tensor]],
    name = "rotary_embedding", internal = true,
    grad = {["input, cos, sin"] = [[rotate_pairs_backward(grad, input, cos, sin, interleaved, back,
    needs(input), needs(cos), needs(sin))]]}}
op {[[rotate_pairs_backward(Tensor grad, Tensor input, Tensor cos, Tensor sin, bool interleaved,
      bool back, bool want_input, bool want_cos, bool want_sin)
      -> (Tensor input, Tensor cos, Tensor sin)]],
    internal = true, composite = true}
