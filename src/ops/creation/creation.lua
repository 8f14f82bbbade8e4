-- Operators that create tensors, and operators that overwrite all elements of an existing tensor.

local options = "*, dtype dtype=nil, device device=nil"

local format = ", string memory_format=nil"

local function create(entry)
   entry.creation, entry.method, entry.nondiff = true, false, "it makes new values"
   op(entry)
end

create {"empty(int[] size..., " .. options .. format .. ") -> Tensor",
    doc = [[Returns a tensor with undefined contents. The shape is given as numbers or as one table;
    the dtype is float32 unless given.]],
    composite = true}
example("empty", [[
   local x = torch.empty(2, 3) -- x has arbitrary values
   print(table.unpack(x.shape))
   --> 2	3]])
create {"zeros(int[] size..., " .. options .. ") -> Tensor",
    doc = "Returns a tensor of zeros; float32 unless dtype is given.",
    composite = true}
example("zeros", [=[
   print(torch.zeros(2, 3))
   --> tensor([[0., 0., 0.],
   -->         [0., 0., 0.]])
   print(torch.zeros({2}, {dtype = torch.int64}))
   --> tensor([0, 0])]=])
create {"ones(int[] size..., " .. options .. ") -> Tensor",
    doc = "Returns a tensor of ones; float32 unless dtype is given.",
    composite = true}
example("ones", [[
   print(torch.ones(3), torch.ones(2, {dtype = torch.bool}))
   --> tensor([1., 1., 1.])	tensor([True, True])]])
create {"full(int[] size, Number fill_value, " .. options .. ") -> Tensor",
    doc = [[Returns a tensor whose elements all equal fill_value. Its dtype, unless given, is the
    number's own: int64, float32 or bool.]],
    composite = true}
example("full", [=[
   print(torch.full({2, 2}, 7))
   --> tensor([[7, 7],
   -->         [7, 7]])]=])
create {"arange(Number start, Number end_=nil, Number step=1, " .. options .. ") -> Tensor",
    doc = [[Returns start, start + step, ... up to but not including end: ceil((end - start) / step)
    numbers. A single argument is the end; the start is then 0. The dtype, unless given, is int64 if
    all arguments are integers, else float32.]],
    composite = true}
example("arange", [[
   print(torch.arange(5), torch.arange(1, 10, 3)) -- arange excludes its end
   --> tensor([0, 1, 2, 3, 4])	tensor([1, 4, 7])
   print(torch.arange(0, 1, 0.25))
   --> tensor([0.0000, 0.2500, 0.5000, 0.7500])]])
create {"range(Number start, Number end_, Number step=1, " .. options .. ") -> Tensor",
    doc = [[Returns start, start + step, ... up to end, which is included if a step lands on it;
    float32 unless dtype is given.]],
    composite = true}
create {"linspace(Number start, Number end_, int steps, " .. options .. ") -> Tensor",
    doc = [[Returns `steps` evenly spaced numbers from start to end, both included; float32 unless
    dtype is given.]],
    composite = true}
example("linspace", [[
   print(torch.linspace(0, 1, 5)) -- linspace includes its end
   --> tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])]])
create {"logspace(Number start, Number end_, int steps, Number base=10.0, " .. options
      .. ") -> Tensor",
    doc = "Returns base to the powers of linspace(start, end, steps).", composite = true}
example("logspace", [[
   print(torch.logspace(0, 3, 4))
   --> tensor([   1.,   10.,  100., 1000.])]])
create {"scalar_tensor(Number s, " .. options .. ") -> Tensor",
    doc = "Returns a tensor of no dimensions that holds s; float32 unless dtype is given.",
    composite = true}
create {"eye(int n, int m=nil, " .. options .. ") -> Tensor",
    doc = [[Returns an (n, m) matrix with ones on the diagonal and zeros elsewhere; m is n unless
    given.]], composite = true}
example("eye", [=[
   print(torch.eye(2, 3))
   --> tensor([[1., 0., 0.],
   -->         [0., 1., 0.]])]=])

for _, row in ipairs {
   {"empty", "", "undefined contents"}, {"zeros", "", "zeros"}, {"ones", "", "ones"},
   {"full", "Number fill_value, ", "a number"},
} do
   op {row[1] .. "_like(Tensor self, " .. row[2] .. options .. format .. ") -> Tensor",
       doc = "Returns a tensor of " .. row[3]
         .. " with self's shape, and with its dtype, device and order of memory unless given.",
       composite = true, creation = true, method = false, nondiff = "it makes new values"}
   op {"new_" .. row[1] .. "(Tensor self, int[] size" .. (row[2] == "" and "..." or "") .. ", "
         .. row[2] .. options
          .. ") -> Tensor",
       doc = "Returns a tensor of " .. row[3]
         .. " of another shape, with self's dtype and device unless given.",
       composite = true, creation = true, func = false, nondiff = "it makes new values"}
end
example("zeros_like", [[
   local x = torch.tensor {1, 2}
   print(torch.zeros_like(x), torch.zeros_like(x, {dtype = torch.float32}))
   --> tensor([0, 0])	tensor([0., 0.])]])
example("ones_like", [[
   print(torch.ones_like(torch.tensor {1.5, 2.5}))
   --> tensor([1., 1.])]])
example("full_like", [[
   print(torch.full_like(torch.tensor {1, 2}, 9))
   --> tensor([9, 9])]])

-- Whole contents ----------------------------------------------------------------------------------

op {"fill_(Tensor self, Number value) -> self", doc = "Sets every element to a number.",
    overlap = true,
    grad = {self = "zeros_like(grad)"}, examples = {"T(3), 2.5"}}
example("fill_", [[
   print(torch.empty(2):fill_(3))
   --> tensor([3., 3.])]])
op {"fill_.tensor(Tensor self, Tensor value) -> self",
    doc = "The same with the number in a tensor of no dimensions.",
    composite = true, nondiff = "see fill"}
op {"fill(Tensor self, Number value) -> Tensor",
    doc = [[Returns a tensor of self's shape and dtype whose elements all equal value, even where
    self is NaN.]],
    method = false, grad = {self = "zeros_like(grad)"}, examples = {"T(3), 2.5"}}
op {"fill.tensor(Tensor self, Tensor value) -> Tensor",
    doc = "The same with the number in a tensor of no dimensions.",
    method = false, composite = true, out = false,
    examples = {"T(3), T()", "T(2, 2), torch.tensor(7)"}}
op {"zero_(Tensor self) -> self", doc = "Sets every element to zero.", overlap = true,
    grad = {self = "zeros_like(grad)"}, examples = {"T(3)"}}
example("zero_", [[
   print(torch.ones(2):zero_())
   --> tensor([0., 0.])]])
op {"fill_diagonal_(Tensor self, Number fill_value, bool wrap=false) -> self",
    doc = [[Sets the main diagonal of a matrix, or of a tensor whose sizes are all the same, to a
    number. With wrap the diagonal of a matrix with more rows than columns starts again below its
    end, after a row that stays as it is.]],
    func = false, composite = true, nondiff = "see fill_",
    examples = {"T(3, 3):clone(), 2.5", "T(5, 2):clone(), 1, true"}}

takes_complex [[linspace logspace empty zeros ones full scalar_tensor eye empty_like zeros_like
   ones_like full_like new_empty new_zeros new_ones new_full fill_ fill__tensor fill fill_tensor
   zero_ fill_diagonal_]]

takes_stored [[empty zeros ones full scalar_tensor empty_like zeros_like ones_like full_like
   new_empty new_zeros new_ones new_full fill_ fill__tensor fill fill_tensor zero_]]
