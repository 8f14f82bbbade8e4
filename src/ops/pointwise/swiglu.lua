-- Operators that compute SwiGLU, the gate of most language models, and its gradient, each in one
-- pass.

op {[[swiglu(Tensor input, Tensor gate=nil, Tensor bias=nil, Tensor gate_bias=nil, *, dim dim=-1)
      -> Tensor]],
    module = "nn.functional", method = false, composite = true,
    doc = [[Computes (input + bias) * silu(gate + gate_bias), all broadcast, in one pass. Without
    gate, input + bias is split along dim into two halves, as by glu: the first is multiplied, the
    second is the gate.]],
    examples = {"T(3, 4), T(3, 4)", "T(2, 3, 4), T(2, 3, 4), T(4), T(4)", "T(3, 4)",
                "T(4, 3), nil, T(4, 1), {dim = 1}", "T(3, 1), T(2, 1, 4), nil, T(4)",
                "T(2, 3, 4), nil, T(4)", "T(3, 4), T(4), T(4)"}}

op {"swiglu_pair(Tensor input, Tensor gate, Tensor bias, Tensor gate_bias) -> Tensor",
    name = "swiglu", internal = true,
    grad = {["input, gate, bias, gate_bias"] =
       "swiglu_pair_backward(grad, input, gate, bias, gate_bias)"}}
op {[[swiglu_pair_backward(Tensor grad, Tensor input, Tensor gate, Tensor bias, Tensor gate_bias)
      -> (Tensor input, Tensor gate, Tensor bias, Tensor gate_bias)]],
    internal = true, composite = true}

op {"swiglu_halves(Tensor input, Tensor bias, int dim) -> Tensor",
    name = "swiglu", internal = true,
    grad = {["input, bias"] = "swiglu_halves_backward(grad, input, bias, dim)"}}
op {[[swiglu_halves_backward(Tensor grad, Tensor input, Tensor bias, int dim)
      -> (Tensor input, Tensor bias)]],
    internal = true, composite = true}
