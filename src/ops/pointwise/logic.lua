-- Elementwise selection, comparison and logic operators. The names used in the examples (T, P, I,
-- ...) are explained in arithmetic.lua.

local function predicate(name, doc)
   op {name .. "(Tensor self) -> Tensor", doc = doc, pointwise = {types = "number", out = "bool"},
       examples = {"T(3, 4)"}}
end

local function comparison(name, sign, alias)
   op {name .. "(Tensor self, Operand other) -> Tensor",
       doc = "Compares elementwise: self " .. sign
         .. " other, as a bool tensor. Comparisons with NaN are false, except ne.",
       pointwise = {types = "number", out = "bool"}, inplace = true, alias = alias,
       examples = {"T(3, 4), T(4)", "T(3), 0.5"}}
end

-- Choice ------------------------------------------------------------------------------------------

op {"where(Tensor condition, Operand self, Operand other) -> Tensor",
    doc = "Returns self where condition is true, else other; all three are broadcast.",
    composite = true,
    examples = {"M(3, 4), T(3, 4), T(4)", "M(3), T(2, 3), 0.5", "M(2, 1), 1.5, T(3)"}}
example("where", [[
   local x = torch.tensor {-1.0, 2.0, -3.0}
   print(torch.where(x:gt(0), x, 0))
   --> tensor([0., 2., 0.])
   print(torch.where(x:lt(0))[1]) -- positions count from 1
   --> tensor([1, 3])]])
op {"where_self(Tensor self, Tensor condition, Operand other) -> Tensor",
    name = "where",
    doc = [[As x:where(condition, other): returns self where condition is true, else other; all
    three are broadcast.]],
    expr = "where(condition, self, other)", func = false,
    examples = {"T(3, 4), M(3, 4), T(4)", "T(3), M(4, 3), 0.5"}}
op {"where.positions(Tensor condition) -> Tensor[]",
    doc = [[With the condition alone: returns the positions of its true elements, a list with one
    tensor per dimension.]],
    composite = true, nondiff = "positions", waits = "the result's shape depends on the data",
    examples = {"M(3, 4)"}}
op {"select_where(Tensor condition, Tensor self, Tensor other) -> Tensor",
    name = "where", internal = true,
    pointwise = {types = "number", kernel = "where"},
    grad = {self = "where(condition, grad, 0)", other = "where(condition, 0, grad)"}}

-- Comparison and logic ----------------------------------------------------------------------------

comparison("eq", "==")
example("eq", [[
   local a, b = torch.tensor {1, 2}, torch.tensor {1, 3}
   print(a:eq(b), a == b) -- == compares whether both are one tensor
   --> tensor([ True, False])	false]])
comparison("ne", "~=", {"not_equal"})
example("ne", [[
   print(torch.tensor({1, 2}):ne(2))
   --> tensor([ True, False])]])
comparison("lt", "<", {"less"})
example("lt", [[
   print(torch.tensor({1, 2, 3}):lt(2))
   --> tensor([ True, False, False])]])
comparison("le", "<=", {"less_equal"})
example("le", [[
   print(torch.tensor({1, 2, 3}):le(2))
   --> tensor([ True,  True, False])]])
comparison("gt", ">", {"greater"})
example("gt", [[
   local x = torch.tensor {1, 5, 3}
   print(x:gt(2), x[x:gt(2)])
   --> tensor([False,  True,  True])	tensor([5, 3])]])
comparison("ge", ">=", {"greater_equal"})
example("ge", [[
   print(torch.tensor({1, 2, 3}):ge(2))
   --> tensor([False,  True,  True])]])

for _, row in ipairs {{"and", "both are"}, {"or", "at least one is"}, {"xor", "exactly one is"}} do
   op {"logical_" .. row[1] .. "(Tensor self, Operand other) -> Tensor",
       doc = "Returns whether " .. row[2] .. " not zero, elementwise, as a bool tensor.",
       pointwise = {types = "number", out = "bool"}, inplace = true, examples = {"M(3, 4), M(4)"}}
end
example("logical_and", [[
   local x = torch.tensor {1, 5, 9}
   print(x:gt(2):logical_and(x:lt(8)), x:gt(2) & x:lt(8))
   --> tensor([False,  True, False])	tensor([False,  True, False])]])
example("logical_or", [[
   print(torch.tensor({true, false}):logical_or(torch.tensor {false, false}))
   --> tensor([ True, False])]])
op {"logical_not(Tensor self) -> Tensor",
    doc = "Returns whether each element is 0, as a bool tensor.",
    pointwise = {types = "number", out = "bool"}, inplace = true, examples = {"M(3)"}}
example("logical_not", [[
   print(torch.tensor({true, false}):logical_not())
   --> tensor([False,  True])]])

for _, row in ipairs {{"and", "and"}, {"or", "or"}, {"xor", "exclusive or"}} do
   op {"bitwise_" .. row[1] .. "(Tensor self, Operand other) -> Tensor",
       doc = "Computes the bitwise " .. row[2]
          .. " of integers, and the logical one of bool tensors.",
       pointwise = {types = "integer"}, inplace = true, metamethod = "b" .. row[1],
       examples = {"M(3), M(3)"}}
end
example("bitwise_and", [[
   print(torch.tensor({6, 12}) & torch.tensor {3, 10})
   --> tensor([2, 8])]])
op {"bitwise_not(Tensor self) -> Tensor",
    doc = "Inverts all bits of integers; bool tensors get logical_not.",
    composite = true, hooked = true, inplace = true, nondiff = "integers",
    examples = {"M(3)"}}
op {"bitwise_invert(Tensor self) -> Tensor",
    name = "bitwise_not", internal = true, pointwise = {types = "integer", bool = false}}
op {"bitwise_left_shift(Tensor self, Operand other) -> Tensor",
    doc = "Shifts the bits of integers to the left: self << other.",
    pointwise = {types = "integer", bool = false}, inplace = true, metamethod = "shl",
    examples = {"I(30, 4), I(5, 3, 4)", "I(30, 4), 2"}}
example("bitwise_left_shift", [[
   print(torch.tensor({1, 3}) << 2)
   --> tensor([ 4, 12])]])
op {"bitwise_right_shift(Tensor self, Operand other) -> Tensor",
    doc = "Shifts the bits of integers to the right: self >> other. The sign is kept.",
    pointwise = {types = "integer", bool = false}, inplace = true, metamethod = "shr",
    examples = {"I(30, 4), I(5, 3, 4)", "I(30, 4), 2"}}

predicate("isnan", "Returns whether each element is NaN.")
example("isnan", [[
   print(torch.tensor({1.0, torch.nan}):isnan())
   --> tensor([False,  True])]])
predicate("isinf", "Returns whether each element is infinite, of either sign.")
example("isinf", [[
   print(torch.tensor({1.0, -torch.inf}):isinf())
   --> tensor([False,  True])]])
predicate("isfinite", "Returns whether each element is neither infinite nor NaN.")
example("isfinite", [[
   print(torch.tensor({1.0, torch.inf, torch.nan}):isfinite())
   --> tensor([ True, False, False])]])
predicate("isposinf", "Returns whether each element is +infinity.")
predicate("isneginf", "Returns whether each element is -infinity.")
predicate("signbit", "Returns whether each element's sign bit is set; true for -0.0.")
op {"isreal(Tensor self) -> Tensor",
    doc = [[Returns whether each element has no imaginary part; true for all elements of real
    tensors.]],
    composite = true, out = false, nondiff = "a bool result", examples = {"T(3)"}}
op {[[isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=false)
      -> Tensor]],
    doc = [[Returns whether |self - other| <= atol + rtol * |other|, elementwise; equal infinities
    are close.]],
    composite = true, nondiff = "a bool result", examples = {"T(3), T(3)"}}
example("isclose", [[
   local a = torch.tensor {1.0, 2.0}
   print(a:isclose(torch.tensor {1.0 + 1e-7, 2.1}))
   --> tensor([ True, False])]])
op {[[allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=false)
      -> bool]],
    doc = "Returns whether isclose is true for all elements.",
    composite = true, nondiff = "a boolean",
    waits = "the result is for the host", examples = {"T(3), T(3)"}}
example("allclose", [[
   local a = torch.tensor {1.0, 2.0}
   print(a:allclose(a + 1e-6), a:allclose(a + 0.1))
   --> true	false]])
op {"is_same_size(Tensor self, Tensor other) -> bool",
    doc = "Returns whether both tensors have the same shape.",
    composite = true, nondiff = "a boolean", examples = {"T(3), T(2)"}}
op {"is_nonzero(Tensor self) -> bool", doc = "Returns whether self's only element differs from 0.",
    composite = true, nondiff = "a boolean", waits = "the result is for the host",
    examples = {"T(1)"}}
op {"is_signed(Tensor self) -> bool", doc = "Returns whether self's dtype has negative numbers.",
    composite = true, nondiff = "a boolean", examples = {"T(1)"}}
op {"equal(Tensor self, Tensor other) -> bool",
    doc = "Returns whether both tensors have the same shape and the same elements.",
    composite = true, nondiff = "a boolean", waits = "the result is for the host",
    examples = {"T(3), T(3)"}}
example("equal", [[
   local a = torch.tensor {1, 2}
   print(a:equal(torch.tensor {1, 2}), a == torch.tensor {1, 2})
   --> true	false]])

takes_complex [[eq ne where where_self select_where isnan isinf isfinite isreal isclose allclose
   equal is_nonzero is_same_size is_signed logical_and logical_or logical_xor logical_not]]

takes_stored "is_signed is_same_size"
