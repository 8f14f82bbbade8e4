-- Prints a hash of matrix products of many sizes in the portable mode. bits_spec.lua compares the hashes of several
-- instruction sets, whose loops use vectors of different widths.

local torch = require "tlua"
local nn = torch.nn

torch.use_deterministic_algorithms "portable"
torch.manual_seed(5)
math.randomseed(5)

local sum = 0

local function note(tensor)
   local bits = tensor:detach():contiguous():view(tensor.dtype == "float64" and "int64" or "int32"):flatten()
   local weights = torch.arange(bits:numel(), {dtype = "int64"}):remainder(1009) + 1
   sum = sum * 31 + (bits:to "int64" * weights):sum():item()
end

local function size(most) return math.random(math.random(2) == 1 and 20 or most) end
local function one_of(list) return list[math.random(#list)] end

local function matrix(rows, cols, dtype)
   if math.random(2) == 1 then return torch.randn(rows, cols, {dtype = dtype}) end
   return torch.randn(cols, rows, {dtype = dtype}):t()
end

for i = 1, 120 do
   local dtype <const> = one_of {"float32", "float32", "float64"}
   local m, k, n = size(500), size(600), size(400)
   local a, b = matrix(m, k, dtype), matrix(k, n, dtype)
   note(a:mm(b))
   note(matrix(m, n, dtype):addmm(a, b, {beta = one_of {0, 1, 0.5}, alpha = one_of {1, 1, 0.3}}))
   note(nn.functional.linear(a, b:t(), torch.randn(n, {dtype = dtype})))
   if i % 10 == 0 then
      local lstm = nn.LSTM(size(40), size(70), {dtype = dtype})
      local x = torch.randn(size(9), size(20), lstm.input_size, {dtype = dtype, requires_grad = true})
      local y = lstm(x)
      y:square():sum():backward()
      note(y)
      note(x.grad)
      for _, parameter in lstm:named_parameters() do note(parameter.grad) end
   end
end
print(sum)
