-- Making tensors, copying them, changing their dtype or their contents as a whole.

local options = "*, dtype dtype=nil, device device=nil"

local function create(entry)
   entry.creation, entry.method, entry.nondiff = true, false, "it makes new values"
   op(entry)
end

create {"empty(int[] size..., " .. options .. ") -> Tensor",
    doc = "A tensor of that shape (numbers, or one table) with undefined contents; float32 unless dtype is given.",
    composite = true}
create {"zeros(int[] size..., " .. options .. ") -> Tensor", doc = "A tensor of zeros; float32 unless dtype is given.",
    composite = true}
create {"ones(int[] size..., " .. options .. ") -> Tensor", doc = "A tensor of ones; float32 unless dtype is given.",
    composite = true}
create {"full(int[] size, Number fill_value, " .. options .. ") -> Tensor",
    doc = "A tensor filled with a number, whose dtype is the number's own (int64, float32, bool) unless given.",
    composite = true}
create {"arange(Number start, Number end_=nil, Number step=1, " .. options .. ") -> Tensor",
    doc = [[start, start + step, ... without end: ceil((end - start) / step) numbers. With one number
    that is the end and the start is 0. int64 if all are integers, else float32.]],
    composite = true}
create {"range(Number start, Number end_, Number step=1, " .. options .. ") -> Tensor",
    doc = "start, start + step, ... with the end included if a step lands on it; float32 unless dtype is given.",
    composite = true}
create {"linspace(Number start, Number end_, int steps, " .. options .. ") -> Tensor",
    doc = "`steps` evenly spaced numbers from start to end, both included; float32 unless dtype is given.",
    composite = true}
create {"logspace(Number start, Number end_, int steps, Number base=10.0, " .. options .. ") -> Tensor",
    doc = "base to the powers of linspace(start, end, steps).", composite = true}
create {"scalar_tensor(Number s, " .. options .. ") -> Tensor",
    doc = "A tensor of no dimensions with that number; float32 unless dtype is given.", composite = true}
create {"empty_strided(int[] size, int[] stride, " .. options .. ") -> Tensor",
    doc = "A tensor of that shape and those strides (in elements) with undefined contents.", composite = true}
create {"eye(int n, int m=nil, " .. options .. ") -> Tensor",
    doc = "An (n, m) matrix, m = n if left out, with ones on the diagonal.", composite = true}

for _, row in ipairs {{"empty", "", "undefined contents"}, {"zeros", "", "zeros"}, {"ones", "", "ones"},
                      {"full", "Number fill_value, ", "a number"}} do
   op {row[1] .. "_like(Tensor self, " .. row[2] .. options .. ") -> Tensor",
       doc = "A tensor of " .. row[3] .. " with self's shape, and its dtype and device unless given.",
       composite = true, creation = true, method = false, nondiff = "it makes new values"}
   op {"new_" .. row[1] .. "(Tensor self, int[] size" .. (row[2] == "" and "..." or "") .. ", " .. row[2] .. options
          .. ") -> Tensor",
       doc = "A tensor of " .. row[3] .. " of another shape, with self's dtype and device unless given.",
       composite = true, creation = true, func = false, nondiff = "it makes new values"}
end

-- Whole contents -----------------------------------------------------------------------------------

op {"fill_(Tensor self, Number value) -> self", doc = "Sets every element to a number.",
    grad = {self = "zeros_like(grad)"}, examples = {"T(3), 2.5"}}
op {"fill_.tensor(Tensor self, Tensor value) -> self", doc = "The same with the number in a tensor of no dimensions.",
    composite = true, nondiff = "see fill"}
op {"fill(Tensor self, Number value) -> Tensor", doc = "A tensor like self with every element, NaN too, set to a number.",
    method = false, grad = {self = "zeros_like(grad)"}, examples = {"T(3), 2.5"}}
op {"fill.tensor(Tensor self, Tensor value) -> Tensor", doc = "The same with the number in a tensor of no dimensions.",
    method = false, composite = true, out = false, examples = {"T(3), T()", "T(2, 2), torch.tensor(7)"}}
op {"zero_(Tensor self) -> self", doc = "Sets every element to zero.",
    grad = {self = "zeros_like(grad)"}, examples = {"T(3)"}}
op {"fill_diagonal_(Tensor self, Number fill_value, bool wrap=false) -> self",
    doc = [[Sets the main diagonal of a matrix, or of a tensor whose sizes are all the same, to a number; with wrap
    the diagonal of a high matrix begins again after each row that it leaves out.]],
    func = false, composite = true, nondiff = "see fill_", examples = {"T(3, 3):clone(), 2.5", "T(5, 2):clone(), 1, true"}}
op {"copy_(Tensor self, Tensor src) -> self",
    doc = "Copies src, broadcast to self's shape and converted to its dtype, into self.", func = false,
    grad = {self = "zeros_like(grad)", src = "grad"}, examples = {"T(3), T(3)", "T(2, 3), T(3)"}}
op {"resize_(Tensor self, int[] size...) -> self",
    doc = [[Gives self another shape, row-major, or leaves it as it is if it has that shape; the storage grows if it
    must, with undefined new contents. Not for tensors that require a gradient.]],
    func = false, nondiff = "it changes the storage"}

op {"clone(Tensor self) -> Tensor", doc = "A copy with memory of its own; gradients pass through.",
    grad = {self = "grad"}, out = false, examples = {"T(3, 4)", "T(4, 3):t()", "T()"}}
op {"contiguous(Tensor self) -> Tensor", doc = "self if its memory is row-major, else a row-major copy.",
    composite = true, out = false, examples = {"T(4, 3):t()"}}
op {"to_row_major(Tensor self) -> Tensor",
    name = "contiguous", node = "Clone", internal = true, grad = {self = "grad"}}
op {"to_dtype(Tensor self, dtype dtype) -> Tensor",
    name = "to", node = "ToCopy", internal = true, grad = {self = "to_dtype(grad, dtype(self))"}}
op {"move(Tensor self, device device) -> Tensor",
    name = "to", node = "ToCopy", internal = true, grad = {self = "move(grad, device(self))"}}
op {"to(Tensor self, dtype dtype=nil, bool non_blocking=false, bool copy=false, *, device device=nil) -> Tensor",
    doc = [[self converted to a dtype and moved to a device; self itself if nothing changes, unless copy is
    true. x:to("float64"), x:to("cuda:0") and x:to(other) work as well. Every move has ended when it
    returns, with non_blocking too.]],
    composite = true, func = false, out = false, examples = {"T(3), 'float64'", "T(3), 'float64', false, true"}}
op {"to.device(Tensor self, device device, dtype dtype=nil, bool non_blocking=false, bool copy=false) -> Tensor",
    doc = "The same with the device first.", composite = true, func = false, out = false,
    examples = {"T(3), 'cpu'", "T(3), 'cpu', 'float64'", "T(3), 'cpu', 'float64', true, true"}}
op {"to.device_only(Tensor self, device device, bool non_blocking, bool copy=false) -> Tensor",
    doc = "The same with the device alone.", composite = true, func = false, out = false,
    examples = {"T(3), 'cpu', true"}}
op {"to.like(Tensor self, Tensor other, bool non_blocking=false, bool copy=false) -> Tensor",
    doc = "Converted to other's dtype and device.", composite = true, func = false, out = false,
    examples = {"T(3), T(1)", "T(3), T(1), false, true"}}

for _, row in ipairs {{"float", "float32"}, {"double", "float64"}, {"half", "float16"}, {"bfloat16", "bfloat16"},
                      {"char", "int8"}, {"short", "int16"}, {"int", "int32"}, {"long", "int64"}, {"byte", "uint8"},
                      {"bool", "bool"}} do
   local gradcheck
   if row[1] ~= "double" then gradcheck = false end -- rounding is no smooth function
   op {row[1] .. "(Tensor self) -> Tensor", doc = "self converted to " .. row[2] .. ".",
       expr = "to(self, '" .. row[2] .. "')", func = false, out = false, examples = {"T(3)"},
       gradcheck = gradcheck, nondiff = not row[2]:find("float") and "no floating result" or nil}
end
op {"type_as(Tensor self, Tensor other) -> Tensor", doc = "self converted to other's dtype.",
    composite = true, func = false, out = false, examples = {"T(3), T(1)"}}
op {"cpu(Tensor self) -> Tensor", doc = "self moved to the CPU.", composite = true, func = false, out = false,
    examples = {"T(3)"}}
op {"cuda(Tensor self, device device=nil) -> Tensor", doc = "self moved to a CUDA device, such as 'cuda:1'; the first unless given.",
    composite = true, func = false, out = false}
op {"cuda.number(Tensor self, int device) -> Tensor", doc = "The same by the device's number, which counts from 0.",
    composite = true, func = false, out = false}
op {"detach(Tensor self) -> Tensor", doc = "A view of the same memory that has no history and requires no gradient.",
    composite = true, out = false, nondiff = "it cuts the graph"}
