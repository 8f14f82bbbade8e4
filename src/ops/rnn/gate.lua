-- An operator that computes both gradients of a gate of a recurrent cell in one pass.

op {"_gate_backward(Tensor grad, Tensor open, Tensor value, bool squash=false) "
       .. "-> (Tensor gate, Tensor value)",
    doc = [[Computes the gradients of sigmoid(gate) * value from grad, the gradient of the product,
    open = sigmoid(gate), and value. With squash, computes the gradients of sigmoid(gate) *
    tanh(value), where the argument value is tanh(value). The tensors are floating and have one
    dtype and one shape.]],
    composite = true, method = false, out = false, nondiff = "a gradient",
    examples = {"T(3, 4), T(3, 4), T(3, 4)", "T(2, 3), T(2, 3), T(2, 3), true"}}
