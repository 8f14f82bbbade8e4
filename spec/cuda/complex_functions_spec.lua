-- Compares the GPU's functions of complex numbers with the C library's at extreme arguments: zeros of both signs, tiny
-- and huge numbers, infinities, NaN, branch cuts, and arguments where rounding errors are large because digits cancel.

local torch = require "tlua"

local functions <const> = {"exp", "log", "log10", "log2", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos",
                           "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "abs", "angle", "sgn",
                           "reciprocal", "sigmoid"}
local inf <const> = math.huge
local parts <const> = {
   complex128 = {0.0, -0.0, 5e-324, 1e-310, -1e-200, 1e-20, -0.1, 0.5, 0.6, 0.8, -1, 1 + 2 ^ -52, 1.25, -1.5, 2, -22.5,
                 300, 710, -745, 1e10, 1e160, -1.7e308, inf, -inf, 0 / 0},
   complex64 = {0.0, -0.0, 1e-45, 1e-40, -1e-30, 1e-10, -0.1, 0.5, 0.6, 0.8, -1, 1 + 2 ^ -23, 1.25, -1.5, 2, -11.5, 40,
                89, -100, 1e10, 1e25, -3.4e38, inf, -inf, 0 / 0},
}
local precision <const> = {complex64 = 2.0 ^ -23, complex128 = 2.0 ^ -52}

-- Returns complex numbers with all pairs of the extreme values as real and imaginary parts.
local function grid(dtype)
   local real = torch.tensor(parts[dtype], {dtype = "float64", device = "cpu"})
   local n = real:numel()
   return torch.complex(real:reshape(n, 1):expand(n, n), real:reshape(1, n):expand(n, n)):reshape(-1):to(dtype)
end

-- Returns whether two real or imaginary parts, e and a, of numbers of this magnitude agree within the tolerance.
local function agree(e, a, magnitude, tolerance)
   if e ~= e then return a ~= a end
   return e == a or math.abs(e - a) <= tolerance * magnitude
end

describe("functions of complex numbers on the GPU", function()
   for _, dtype in ipairs {"complex64", "complex128"} do
      for _, name in ipairs(functions) do
         it(("agree with the C library at extreme arguments: %s of %s"):format(name, dtype), function()
            local x = grid(dtype)
            local here, there = x[name](x), x:to "cuda"
            there = there[name](there):cpu()
            assert.equal(here.dtype, there.dtype)
            local wrong = {}
            for k = 1, x:numel() do
               local e, a = here[k]:item(), there[k]:item()
               local er, ei, ar, ai = e, 0, a, 0
               if here:is_complex() then er, ei, ar, ai = e.real, e.imag, a.real, a.imag end
               local magnitude = math.max(er == er and math.abs(er) or 0, ei == ei and math.abs(ei) or 0, 1e-300)
               local tolerance = 16 * precision[dtype]
               if not (agree(er, ar, magnitude, tolerance) and agree(ei, ai, magnitude, tolerance)) then
                  wrong[#wrong + 1] = ("%s: expected %s, got %s"):format(x[k]:item(), e, a)
               end
            end
            local list = table.concat(wrong, "\n", 1, math.min(#wrong, 12))
            assert(#wrong == 0, ("%d of %d\n%s"):format(#wrong, x:numel(), list))
         end)
      end
   end
end)
