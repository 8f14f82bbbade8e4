-- Choice, comparison and logic, elementwise. For the names in examples see arithmetic.lua.

local function predicate(name, doc)
   op {name .. "(Tensor self) -> Tensor", doc = doc, pointwise = {types = "number", out = "bool"},
       examples = {"T(3, 4)"}}
end

local function comparison(name, sign, alias)
   op {name .. "(Tensor self, Operand other) -> Tensor",
       doc = "Elementwise self " .. sign
         .. " other, as a bool tensor. A comparison with NaN is false, but for ne.",
       pointwise = {types = "number", out = "bool"}, inplace = true, alias = alias,
       examples = {"T(3, 4), T(4)", "T(3), 0.5"}}
end

-- Choice ------------------------------------------------------------------------------------------

op {"where(Tensor condition, Operand self, Operand other) -> Tensor",
    doc = "self where condition is true, else other; all broadcast.",
    composite = true,
    examples = {"M(3, 4), T(3, 4), T(4)", "M(3), T(2, 3), 0.5", "M(2, 1), 1.5, T(3)"}}
op {"where_self(Tensor self, Tensor condition, Operand other) -> Tensor",
    name = "where",
    doc = "x:where(condition, other): self where condition is true, else other; all broadcast.",
    expr = "where(condition, self, other)", func = false,
    examples = {"T(3, 4), M(3, 4), T(4)", "T(3), M(4, 3), 0.5"}}
op {"where.positions(Tensor condition) -> Tensor[]",
    doc = [[With the condition alone: the positions of its true elements, a list with one tensor per
    dimension.]],
    composite = true, nondiff = "positions", waits = "the result's shape depends on the data",
    examples = {"M(3, 4)"}}
op {"select_where(Tensor condition, Tensor self, Tensor other) -> Tensor",
    name = "where", internal = true,
    pointwise = {types = "number", kernel = "where"},
    grad = {self = "where(condition, grad, 0)", other = "where(condition, 0, grad)"}}

-- Comparison and logic ----------------------------------------------------------------------------

comparison("eq", "==")
comparison("ne", "~=", {"not_equal"})
comparison("lt", "<", {"less"})
comparison("le", "<=", {"less_equal"})
comparison("gt", ">", {"greater"})
comparison("ge", ">=", {"greater_equal"})

for _, row in ipairs {{"and", "both are"}, {"or", "at least one is"}, {"xor", "exactly one is"}} do
   op {"logical_" .. row[1] .. "(Tensor self, Operand other) -> Tensor",
       doc = "Whether " .. row[2] .. " not zero, elementwise, as a bool tensor.",
       pointwise = {types = "number", out = "bool"}, inplace = true, examples = {"M(3, 4), M(4)"}}
end
op {"logical_not(Tensor self) -> Tensor", doc = "Whether an element is zero, as a bool tensor.",
    pointwise = {types = "number", out = "bool"}, inplace = true, examples = {"M(3)"}}

for _, row in ipairs {{"and", "and"}, {"or", "or"}, {"xor", "exclusive or"}} do
   op {"bitwise_" .. row[1] .. "(Tensor self, Operand other) -> Tensor",
       doc = "Bitwise " .. row[2] .. " of integers; of bool tensors the logical one.",
       pointwise = {types = "integer"}, inplace = true, examples = {"M(3), M(3)"}}
end
op {"bitwise_not(Tensor self) -> Tensor",
    doc = "All bits of integers inverted; of bool tensors logical_not.",
    composite = true, inplace = true, nondiff = "integers", examples = {"M(3)"}}
op {"bitwise_invert(Tensor self) -> Tensor",
    name = "bitwise_not", internal = true, pointwise = {types = "integer", bool = false}}
op {"bitwise_left_shift(Tensor self, Operand other) -> Tensor", doc = "self << other of integers.",
    pointwise = {types = "integer", bool = false}, inplace = true,
    examples = {"I(30, 4), I(5, 3, 4)", "I(30, 4), 2"}}
op {"bitwise_right_shift(Tensor self, Operand other) -> Tensor",
    doc = "self >> other of integers; the sign is kept.",
    pointwise = {types = "integer", bool = false}, inplace = true,
    examples = {"I(30, 4), I(5, 3, 4)", "I(30, 4), 2"}}

predicate("isnan", "Whether an element is NaN.")
predicate("isinf", "Whether an element is infinite, of either sign.")
predicate("isfinite", "Whether an element is neither infinite nor NaN.")
predicate("isposinf", "Whether an element is +infinity.")
predicate("isneginf", "Whether an element is -infinity.")
predicate("signbit", "Whether the sign bit is set; true for -0.0.")
op {"isreal(Tensor self) -> Tensor",
    doc = "True everywhere: there are real numbers, and NaN, only.",
    composite = true, out = false, nondiff = "a bool result", examples = {"T(3)"}}
op {[[isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=false)
      -> Tensor]],
    doc = [[Whether |self - other| <= atol + rtol * |other|, elementwise; equal infinities are
    close.]],
    composite = true, nondiff = "a bool result", examples = {"T(3), T(3)"}}
op {[[allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=false)
      -> bool]],
    doc = "Whether isclose holds everywhere.", composite = true, nondiff = "a boolean",
    waits = "the result is for the host", examples = {"T(3), T(3)"}}
op {"is_same_size(Tensor self, Tensor other) -> bool", doc = "Whether both have the same shape.",
    composite = true, nondiff = "a boolean", examples = {"T(3), T(2)"}}
op {"is_nonzero(Tensor self) -> bool", doc = "Whether the one element of self is not zero.",
    composite = true, nondiff = "a boolean", waits = "the result is for the host",
    examples = {"T(1)"}}
op {"is_signed(Tensor self) -> bool", doc = "Whether self's dtype has negative numbers.",
    composite = true, nondiff = "a boolean", examples = {"T(1)"}}
op {"equal(Tensor self, Tensor other) -> bool",
    doc = "Whether both have the same shape and the same elements.",
    composite = true, nondiff = "a boolean", waits = "the result is for the host",
    examples = {"T(3), T(3)"}}
