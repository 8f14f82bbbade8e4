-- Tests programs that run several elementwise operators block by block. Their results must equal eager results bit for
-- bit.
local torch = require "tlua"
local nested = require "tlua.export.nested"
local F = torch.nn.functional

-- Checks that a program and its function return the same bits for x and for another input.
local function same(fn, x)
   local _ <close> = torch.no_grad()
   local program = torch.export(fn, {x})
   for _, input in ipairs {x, x, torch.randn(x.shape), x} do -- the second run is the first one that uses planned memory
      local expected, got = {fn(input)}, {program(input)}
      assert.equal(#expected, #got)
      for i, tensor in ipairs(expected) do
         assert.equal(tensor.dtype, got[i].dtype)
         assert.same(tensor:stride(), got[i]:stride())
         assert.is_true(nested.same_bits(tensor, got[i]))
      end
   end
end

local function each_shape(fn)
   for _, shape in ipairs {{40000}, {300, 200}, {7, 9001}, {4, 8, 40, 41}, {3, 5, 5, 700}} do fn(torch.randn(shape)) end
end

describe("a sweep over elementwise operators", function()
   it("has the function's bits for operands of the same sizes and numbers", function()
      each_shape(function(x)
         local a, b = torch.randn(x.shape), torch.randn(x.shape)
         same(function(y) return F.gelu(y * a + b) * 2 - y end, x)
         same(function(y) local z = (y / 3):sigmoid() return z * z, z + 1 end, x)
      end)
   end)

   it("broadcasts rows, columns and strided operands", function()
      each_shape(function(x)
         local row, last = torch.randn(x:size(-1)), x:dim()
         local column = x:select(last, 1):unsqueeze(last):clone()
         local wide = torch.randn(2 * x:size(1), table.unpack(x.shape, 2))
         same(function(y) return ((y + row) * column):tanh() + wide[{{1, x:size(1)}}] end, x)
      end)
      local turned = torch.randn(200, 300):t()
      same(function(y) return (y * 2 + turned):relu() - turned end, torch.randn(300, 200))
      same(function(y) return (y:t() * 2 + 1):exp():t() + turned end, torch.randn(300, 200))
   end)

   it("mixes dtypes, and keeps comparisons as bool", function()
      local wide, whole = torch.randn(50000):double(), torch.arange(50000, {dtype = "int64"})
      local half = torch.randn(50000):to "bfloat16"
      same(function(y)
         local mask = (y * 2 + wide):gt(0)
         return torch.where(mask, y, y * 0.5) + whole, mask, half * 2 + half
      end, torch.randn(50000))
   end)

   it("follows changes in place", function()
      each_shape(function(x)
         local shift = torch.randn(x.shape)
         same(function(y)
            local z = y:exp()
            local before = z * 2
            z:mul_(1.5)
            z:add_(before)
            local whole = z:sum()
            z:add_(shift):relu_()
            return z * whole, before
         end, x)
         same(function(y)
            local z = y + 1
            local part = z:view(-1):narrow(1, 1, 20)
            part:mul_(3)
            return (z * 2 + shift) * z
         end, x)
      end)
   end)

   it("reads an array before an operator outside the sweep overwrites it", function()
      local narrow = torch.randn(64, 1, 64)
      same(function(y)
         local z = y:matmul(y)
         local w = z * 2 + 1
         z:add_(narrow) -- this loop has three dimensions with short rows, so it does not run block by block
         return w, z
      end, torch.randn(64, 64, 64))
   end)

   it("runs operators that overlap in memory one after the other", function()
      same(function(y)
         local z = y:exp()
         z:narrow(1, 1, 39000):add_(z:narrow(1, 1001, 39000))
         return z * 2 + 1
      end, torch.randn(40000))
   end)

   it("reads an array before a later operator reuses its memory", function()
      same(function(y)
         local z = y * 2
         z = (z + 1) * (z - 1)
         local sum = z:sum()
         z = (z * sum + y):abs()
         return ((z + 1):log() * 2):sqrt() + z, z:mean()
      end, torch.randn(70000))
   end)

   it("takes more operators than one sweep can hold, and small operands among large ones", function()
      local scale = torch.ones(3)
      same(function(y)
         local z = y
         for k = 1, 80 do z = z * (scale * k)[2] / k + 0.01 end
         return z
      end, torch.randn(40000))
   end)

   it("covers every elementwise operator of one tensor", function()
      local x = torch.rand(40000) * 0.9 + 0.05
      for name in ([[abs acos asin atan ceil cos cosh digamma erf erfc erfinv exp exp2 expm1 floor frac lgamma log log10
         log1p log2 logit neg reciprocal relu round rsqrt sigmoid sign sin sinc sinh sqrt square tan tanh trunc isnan
         isfinite i0 signbit]]):gmatch "%S+" do
         same(function(y) return torch[name](y * 1) * 2 end, x)
      end
      for name in ([[gelu silu mish softplus elu selu celu leaky_relu hardtanh relu6 hardswish hardsigmoid softsign
         logsigmoid tanhshrink hardshrink]]):gmatch "%S+" do
         same(function(y) return F[name](y * 1) * 2 end, x)
      end
   end)

   it("covers operators that are made of elementwise ones", function()
      each_shape(function(x)
         local a = torch.randn(x.shape)
         same(function(y)
            local z = (1 - y * 2):clamp(-1, 1)
            return torch.where(z:gt(a), z, y:div(3)) + z:clamp(nil, 0.5), F.gelu(z * 2, "tanh")
         end, x)
      end)
   end)

   it("gives an output its own memory", function()
      local function fn(y) return (y + 1) * 2, y + 3 end
      local program = torch.export(fn, {torch.ones(40000)})
      local first = {program(torch.ones(40000))}
      local second = {program(torch.zeros(40000))}
      first[1]:fill_(7)
      assert.equal(4, first[2][1]:item())
      assert.same({2, 3}, {second[1][40000]:item(), second[2][40000]:item()})
      assert.equal(0, second[1]._version)
   end)

   it("runs in branches and loops", function()
      same(function(y)
         local function positive(a) return (a + 1) * 2 end
         local function negative(a) return (a - 1) * 3 end
         return torch.cond(y:sum():gt(0), positive, negative, {y})
      end, torch.randn(40000))
      same(function(y)
         local function below(k) return k:lt(3) end
         local function body(k, a) return k + 1, (a + 1) * 0.5 end
         local _, z = torch.while_loop(below, body, {torch.tensor(0), y})
         return z * 2 + 1
      end, torch.randn(40000))
   end)
end)
