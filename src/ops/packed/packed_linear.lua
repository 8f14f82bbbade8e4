-- Operators that multiply by weights in the quantized blocks of GGUF files. They do not unpack the
-- whole weight in memory.

local function F(entry)
   entry.module, entry.method = "nn.functional", false
   op(entry)
end

F {"packed_linear(Tensor input, Tensor weight, string kind) -> Tensor",
   doc = [[Multiplies input (..., in) by the transpose of a packed weight: (..., out).
   weight (out, bytes of a row) is uint8 with rows of blocks of GGUF's layout kind, such as "Q8_0",
   "Q4_K", "F16". Quantized layouts multiply 8-bit integers: each 32 elements of input, or 256 for
   layouts of blocks of 256, are rounded to 8 bits with one scale. The arithmetic is float32's.]],
   flops = "2 * numel(result) * size(input, -1)",
   gradcheck = false, nondiff = "the gradient ignores that the input is rounded",
   grad = {input = "packed_linear_backward(grad, weight, kind)"},
   examples = {"T(5, 3), torch.ones(2, 6, {dtype = 'uint8'}), 'F16'",
               "T(2, 32), torch.ones(3, 34, {dtype = 'uint8'}), 'Q8_0'"}}
example("packed_linear", [=[
   local x = torch.ones(1, 2)
   local one_and_two = {0, 0x3c, 0, 0x40}
   local weight = torch.tensor({one_and_two}, {dtype = "uint8"})
   print(torch.nn.functional.packed_linear(x, weight, "F16"))
   --> tensor([[3.]])]=])
op {"packed_linear_backward(Tensor grad, Tensor weight, string kind) -> Tensor", internal = true,
    composite = true}
F {"packed_values(Tensor weight, string kind) -> Tensor",
   doc = [[Returns the elements of packed rows (rows, bytes of a row) of the layout kind, such as
   "Q4_K" or "F16", as float32 (rows, elements).]],
   nondiff = "packed weights have no gradient",
   examples = {"torch.ones(2, 6, {dtype = 'uint8'}), 'F16'",
               "torch.ones(3, 34, {dtype = 'uint8'}), 'Q8_0'"}}
example("packed_values", [=[
   local weight = torch.tensor({{0, 0x3c, 0, 0x40}}, {dtype = "uint8"})
   print(torch.nn.functional.packed_values(weight, "F16"))
   --> tensor([[1., 2.]])]=])
