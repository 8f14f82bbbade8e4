-- Operators that report the order of dimensions in memory, and operators that copy a tensor to
-- another memory order.

op {"is_contiguous(Tensor self, *, string memory_format='contiguous_format') -> bool",
    doc = [[Returns whether the elements lie without gaps in the order of memory_format: row-major,
    torch.channels_last for 4 dimensions, or torch.channels_last_3d for 5.]],
    composite = true, func = false, nondiff = "no numbers"}
op {"clone(Tensor self) -> Tensor",
    doc = "Returns a copy in new memory; gradients pass through to self.",
    grad = {self = "grad"}, out = false, examples = {"T(3, 4)", "T(4, 3):t()", "T()"}}
example("clone", [[
   local x = torch.zeros(2)
   local y = x:clone()
   y[1] = 5
   print(x, y)
   --> tensor([0., 0.])	tensor([5., 0.])]])
op {"clone.format(Tensor self, *, string memory_format) -> Tensor",
    doc = [[Returns a copy in the given order of memory (see is_contiguous); torch.preserve_format
    keeps self's order.]],
    composite = true, out = false,
    examples = {"T(1, 2, 2, 3), {memory_format = 'channels_last'}",
                "T(4, 3):t(), {memory_format = 'preserve_format'}"}}
op {"contiguous(Tensor self) -> Tensor",
    doc = "Returns self if its memory is row-major, else a row-major copy.",
    composite = true, out = false, examples = {"T(4, 3):t()"}}
example("contiguous", [[
   local x = torch.zeros(2, 3):t()
   print(x:is_contiguous(), x:contiguous():is_contiguous())
   --> false	true]])
op {"contiguous.format(Tensor self, *, string memory_format) -> Tensor",
    doc = [[Returns self if its memory has the given order (see is_contiguous), else a copy in that
    order.]],
    composite = true, out = false, examples = {"T(1, 2, 2, 3), {memory_format = 'channels_last'}"}}
op {"laid_out(Tensor self, int format) -> Tensor",
    name = "contiguous", node = "Clone", internal = true, grad = {self = "grad"}}

takes_complex()

takes_stored()
