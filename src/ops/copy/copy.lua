-- Operators that copy a tensor: to another dtype or device, to another memory order, or into an
-- existing tensor.

op {"copy_(Tensor self, Tensor src, bool non_blocking=false) -> self", any_device = {src = true},
    node = "CopyBackwards",
    doc = [[Copies src, broadcast to self's shape and converted to its dtype, into self; complex
    numbers are refused where self is real. With non_blocking a copy between a device and pinned
    memory may go on when this returns.]],
    func = false,
    grad = {self = "zeros_like(grad)", src = "grad"}, examples = {"T(3), T(3)", "T(2, 3), T(3)"}}
example("copy_", [=[
   local x = torch.zeros(2, 2)
   x[{1}]:copy_(torch.tensor {1, 2}) -- copy_ converts and broadcasts
   print(x)
   --> tensor([[1., 2.],
   -->         [0., 0.]])]=])
op {"resize_(Tensor self, int[] size...) -> self",
    doc = [[Gives self another shape in row-major order, unless it has that shape already. The
    storage grows if needed; new elements are undefined. Tensors that require a gradient are
    refused.]],
    func = false, nondiff = "it changes the storage"}

op {"to_row_major(Tensor self) -> Tensor",
    name = "contiguous", node = "Clone", internal = true, grad = {self = "grad"}}
op {"to_dtype(Tensor self, dtype dtype) -> Tensor",
    name = "to", node = "ToCopy", internal = true, hooked = true,
    grad = {self = "to_dtype(grad, dtype(self))"}}
op {"move(Tensor self, device device, bool non_blocking=false) -> Tensor",
    name = "to", node = "ToCopy", internal = true, grad = {self = "move(grad, device(self))"}}
op {[[to(Tensor self, dtype dtype=nil, bool non_blocking=false, bool copy=false, *,
      device device=nil, string memory_format=nil) -> Tensor]],
    node = "ToCopy",
    doc = [[Converts self to a dtype and moves it to a device. Returns self itself if nothing
    changes, unless copy is true. x:to("float64"), x:to("cuda:0") and x:to(other) work as well.
    Complex numbers keep their real part in a real dtype, with a warning, once (in a plain Lua,
    `warn "@on"` shows it). With non_blocking a move from pinned memory to a device, or from a
    device to the CPU, which then gives pinned memory, may go on when this returns: synchronize
    before the values are read on the CPU. With memory_format, such as torch.channels_last, the
    result has that order (see contiguous).]],
    composite = true, hooked = true, func = false, out = false,
    examples = {"T(3), 'float64'", "T(3), 'float64', false, true",
                "T(1, 2, 2, 3), {memory_format = 'channels_last'}"}}
example("to", [[
   local x = torch.tensor {1.7, -1.7}
   print(x:to(torch.int64), x:to("cpu", torch.float64))
   --> tensor([ 1, -1])	tensor([ 1.7000, -1.7000], dtype=torch.float64)]])
op {[[to.device(Tensor self, device device, dtype dtype=nil, bool non_blocking=false,
      bool copy=false, *, string memory_format=nil) -> Tensor]],
    node = "ToCopy",
    doc = "The same with the device first.", composite = true, func = false, out = false,
    waits = "what goes to the CPU has arrived when this returns, unless non_blocking",
    examples = {"T(3), 'cpu'", "T(3), 'cpu', 'float64'", "T(3), 'cpu', 'float64', true, true"}}
op {[[to.device_only(Tensor self, device device, bool non_blocking, bool copy=false, *,
      string memory_format=nil) -> Tensor]],
    node = "ToCopy",
    doc = "The same with the device alone.", composite = true, func = false, out = false,
    waits = "what goes to the CPU has arrived when this returns, unless non_blocking",
    examples = {"T(3), 'cpu', true", "T(3), 'cpu', false"}}
op {[[to.like(Tensor self, Tensor other, bool non_blocking=false, bool copy=false, *,
      string memory_format=nil) -> Tensor]],
    any_device = {other = true},
    node = "ToCopy",
    doc = "Converts self to other's dtype and moves it to other's device.",
    composite = true, func = false, out = false,
    examples = {"T(3), T(1)", "T(3), T(1), false, true"}}

for _, row in ipairs {
   {"float", "float32"}, {"double", "float64"}, {"half", "float16"}, {"bfloat16", "bfloat16"},
   {"char", "int8"}, {"short", "int16"}, {"int", "int32"}, {"long", "int64"}, {"byte", "uint8"},
   {"bool", "bool"}, {"cfloat", "complex64"}, {"cdouble", "complex128"},
   {"chalf", "complex32"},
} do
   local gradcheck
   -- numerical gradients would be wrong for narrower types, because rounding is not smooth
   if not row[1]:find "double" then gradcheck = false end
   op {row[1] .. "(Tensor self, *, string memory_format=nil) -> Tensor", node = "ToCopy",
       doc = "Converts self to " .. row[2] .. ".",
       expr = "to(self, '" .. row[2] .. "', nil, nil, nil, memory_format)",
       func = false, out = false, examples = {"T(3)"},
       gradcheck = gradcheck,
       nondiff = not (row[2]:find "float" or row[2]:find "complex") and "no floating result" or nil}
end
op {"type_as(Tensor self, Tensor other) -> Tensor", any_device = {other = true},
    node = "ToCopy", doc = "Converts self to other's dtype.",
    composite = true, func = false, out = false, examples = {"T(3), T(1)"}}
op {"cpu(Tensor self, *, string memory_format=nil) -> Tensor",
    doc = "Moves self to the CPU; memory_format is the result's order of memory (see contiguous).",
    composite = true, func = false, out = false,
    waits = "the values are for the host",
    examples = {"T(3)", "T(1, 2, 2, 3), {memory_format = 'channels_last'}"}}
for _, row in ipairs {{"cuda", "CUDA"}, {"sim", "simulated"}} do
   local name, kind = row[1], row[2]
   local options = "bool non_blocking=false, *, string memory_format=nil) -> Tensor"
   op {name .. "(Tensor self, device device=nil, " .. options,
       doc = ("Moves self to a %s device, such as '%s:1', or to the current one. "
          .. "Options: see to."):format(kind, name),
       composite = true, func = false, out = false}
   op {name .. ".number(Tensor self, int device, " .. options,
       doc = "The same by the device's number, which counts from 0.",
       composite = true, func = false, out = false}
end
op {"detach(Tensor self) -> Tensor",
    doc = "Returns a view of the same memory that has no history and requires no gradient.",
    composite = true, out = false, nondiff = "it cuts the graph"}
example("detach", [[
   local x = torch.ones(2, {requires_grad = true})
   print((x * 2).requires_grad, (x * 2):detach().requires_grad)
   --> true	false]])


takes_complex()

takes_stored()
