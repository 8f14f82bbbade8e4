-- Operators on complex numbers, which return parts, magnitudes and angles, conjugates, and views as
-- pairs of real numbers. In examples, Z(sizes) is a random complex tensor; arithmetic.lua explains
-- the other names.

op {"view_as_real(Tensor self) -> Tensor",
    doc = [[Returns a view of a complex tensor as a real one, whose new last dimension of size 2
    holds the real and the imaginary part.]],
    view = true, grad = {self = "complex_of_pairs(grad)"},
    examples = {"Z(3)", "Z()", "Z(2, 3):t()"}}
example("view_as_real", [=[
   local z = torch.tensor {torch.complex(1, 2)}
   print(z:view_as_real())
   --> tensor([[1., 2.]])]=])
op {"view_as_complex(Tensor self) -> Tensor",
    doc = [[Returns a view of a float32 or float64 tensor as complex numbers, whose parts lie along
    its last dimension, of size 2. That dimension's stride must be 1, the other strides even.]],
    view = true, grad = {self = "view_as_real(grad)"}, examples = {"T(3, 2)", "T(2)"}}
example("view_as_complex", [[
   print(torch.tensor({{1.0, 2.0}, {3.0, -4.0}}):view_as_complex())
   --> tensor([1.+2.j, 3.-4.j])]])
op {"complex_of_pairs(Tensor self) -> Tensor", internal = true, composite = true}
op {"real(Tensor self) -> Tensor",
    doc = "Returns a view of the real parts of a complex tensor, or a real tensor itself.",
    composite = true, hooked = true, out = false, method = false, examples = {"T(3)"}}
op {"imag(Tensor self) -> Tensor",
    doc = "Returns a view of the imaginary parts of a complex tensor. Real tensors are refused.",
    composite = true, hooked = true, out = false, method = false, examples = {"Z(3)", "Z()"}}
op {"conj(Tensor self) -> Tensor",
    doc = [[Returns the complex conjugate, elementwise, in new memory, or a real tensor itself. In
    PyTorch it is a view, so that writing to it changes self; here is_conj() is always false.]],
    composite = true, hooked = true, out = false, examples = {"T(3)"}}
example("conj", [[
   print(torch.tensor({torch.complex(1, 2)}):conj())
   --> tensor([1.-2.j])]])
op {"conj_physical(Tensor self) -> Tensor",
    doc = "Returns the complex conjugate in new memory, or a real tensor itself.",
    pointwise = {types = "number"}, inplace = true, grad = {self = "conj(grad)"},
    examples = {"T(3, 4)", "T()"}}
op {"resolve_conj(Tensor self) -> Tensor",
    doc = "Returns self, since conj computes conjugates at once.", composite = true, out = false,
    examples = {"T(3)"}}
op {"resolve_neg(Tensor self) -> Tensor",
    doc = "Returns self, since neg computes negatives at once.", composite = true, out = false,
    examples = {"T(3)"}}
op {"is_conj(Tensor self) -> bool",
    doc = "Returns false, since conj computes conjugates at once.", composite = true,
    nondiff = "a boolean", examples = {"T(1)"}}
op {"is_neg(Tensor self) -> bool",
    doc = "Returns false, since neg computes negatives at once.", composite = true,
    nondiff = "a boolean", examples = {"T(1)"}}
op {"angle(Tensor self) -> Tensor",
    doc = "Returns the angle of complex numbers, in radians: 0 or pi for real ones. NaN stays NaN.",
    pointwise = {types = "floating", real = true},
    grad = {self = "angle_backward(grad, self)"}, examples = {"P(3, 4)"}}
example("angle", [[
   print(torch.tensor({torch.complex(0, 2), -1}):angle())
   --> tensor([1.5708, 3.1416])]])
op {"angle_backward(Tensor grad, Tensor self) -> Tensor", internal = true, composite = true}
op {"sgn_backward(Tensor grad, Tensor self, Tensor result) -> Tensor", internal = true,
    composite = true}
op {"complex(Tensor real, Tensor imag) -> Tensor", node = "Complex",
    doc = [[Makes complex numbers of a real and an imaginary part: two float32 or float64 tensors of
    one dtype, which are broadcast. Two numbers make one complex number.]],
    composite = true, examples = {"T(3), T(3)", "T(2, 1), T(3)"}}
example("complex", [[
   print(torch.complex(torch.tensor {1.0, 2.0}, torch.tensor {0.0, -1.0}))
   --> tensor([1.+0.j, 2.-1.j])
   print(torch.complex(1, 2) * torch.complex(0, 1))
   --> -2+1i]])
op {"polar(Tensor abs, Tensor angle) -> Tensor", node = "Polar",
    doc = [[Makes complex numbers of magnitudes and angles in radians: two float32 or float64
    tensors of one dtype, which are broadcast.]],
    composite = true, examples = {"T(3), T(3)"}}
example("polar", [[
   print(torch.polar(torch.tensor {2.0}, torch.tensor {math.pi}))
   --> tensor([-2.-1.7485e-07j])]])

takes_complex()

takes_stored "view_as_real view_as_complex real imag resolve_conj resolve_neg is_conj is_neg"
