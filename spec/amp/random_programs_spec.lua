-- random_programs_spec.lua - tests random programs of image operators. Results and gradients must not depend on the
-- memory format of the tensors; under autocast the results must be close to those in float32.
--
--   TLUA_FORMAT_PROGRAMS=5000 make test SPEC=spec/amp/random_programs_spec.lua
--
-- runs 5000 programs (100 by default), the first of which has the number TLUA_FORMAT_FIRST (1).

local numbers = require "spec.support.numbers"
local torch = require "tlua"
local F = torch.nn.functional

local PROGRAMS = tonumber(os.getenv "TLUA_FORMAT_PROGRAMS") or 100
local FIRST = tonumber(os.getenv "TLUA_FORMAT_FIRST") or 1
local N <const>, C <const>, SIDE <const> = 2, 4, 6
local SLOTS <const>, STEPS <const> = 3, 7

-- Functions of two images a and b (N, C, SIDE, SIDE) and weights w. Each function returns an image of the same
-- shape.
local OPERATORS = {
   function(a, _, w) return F.conv2d(a, w.full, {bias = w.bias, padding = 1}) end,
   function(a, _, w) return F.conv2d(a, w.point) end,
   function(a, _, w) return F.conv2d(a, w.depth, {padding = 1, groups = C}) end,
   function(a, _, w) return F.conv2d(a, w.full, {padding = 2, dilation = 2}) end,
   function(a, _, w) return F.conv_transpose2d(a, w.full, {padding = 1}) end,
   function(a, _, w) return F.interpolate(F.conv2d(a, w.full, {padding = 1, stride = 2}), {scale_factor = 2}) end,
   function(a, _, w) return F.batch_norm(a, nil, nil, w.bias, w.bias, true) end,
   function(a, _, w) return F.group_norm(a, 2, w.bias, w.bias) end,
   function(a) return F.layer_norm(a, {SIDE, SIDE}) end,
   function(a) return F.max_pool2d(a, 3, 1, 1) end,
   function(a) return F.avg_pool2d(a, 3, 1, 1) end,
   function(a, b) return a + b end,
   function(a, b) return a * b:tanh() end,
   function(a, b) return a - b:mean({3, 4}, true) end,
   function(a, b) return torch.cat({a, b}, 2)[{{}, {2, C + 1}}] end,
   function(a, b) return a:matmul(b:transpose(3, 4)) / SIDE end,
   function(a) return F.pixel_shuffle(torch.cat({a:relu(), a, a, a}, 2), 2)[{{}, {}, {1, -1, 2}, {2, -1, 2}}] end,
   function(a) return F.softmax(a, 2) * C end,
   function(a) return F.gelu(a:flip {3}) end,
   function(a) return a:transpose(3, 4):relu() end,
   function(a) return F.pad(a, {1, 1, 1, 1}, {mode = "reflect"})[{{}, {}, {2, -2}, {1, SIDE}}] end,
   function(a, b) return a:clone():add_(b):mul_(0.5) end,
   function(a, b)
      local c = a:clone()
      c[{{}, {1, 2}}] = b[{{}, {3, 4}}]
      return c
   end,
}

-- Returns the steps of program `number`; a step is {operator, from, other, to}.
local function program(number)
   local draw, steps = numbers(number), {}
   for i = 1, STEPS do steps[i] = {draw(#OPERATORS), draw(SLOTS), draw(SLOTS), draw(SLOTS)} end
   return steps
end

-- Each memory format is a function that copies a tensor, so that the copy has another order of dimensions in memory.
local FORMATS = {
   contiguous = function(x) return x:clone() end,
   channels_last = function(x)
      return x:dim() == 4 and x:clone():contiguous {memory_format = "channels_last"} or x:clone()
   end,
   transposed = function(x) return x:dim() == 4 and x:transpose(3, 4):contiguous():transpose(3, 4) or x:clone() end,
   spread = function(x) return torch.stack({x, x}, -1):select(-1, 2) end,
}

-- Runs a program on input tensors in a memory format. Returns the images in all slots, and the gradients of the inputs.
local function run(steps, leaves, format, autocast)
   local given, slots = {}, {}
   for name, leaf in pairs(leaves) do given[name] = format(leaf):requires_grad_() end
   for i = 1, SLOTS do slots[i] = given["x" .. i] end
   local function forward()
      for _, step in ipairs(steps) do
         slots[step[4]] = OPERATORS[step[1]](slots[step[2]], slots[step[3]], given)
         assert.same({N, C, SIDE, SIDE}, slots[step[4]].shape)
      end
   end
   if autocast then torch.autocast("cpu", {dtype = "bfloat16"}, forward) else forward() end
   local loss = 0
   for i, slot in ipairs(slots) do loss = loss + (slot:to(leaves.x1.dtype) * leaves["x" .. i]):sum() end
   loss:backward()
   local results = {}
   for i, slot in ipairs(slots) do results["slot " .. i] = slot:detach() end
   for name, leaf in pairs(given) do
      results["gradient of " .. name] = leaf.grad or torch.zeros_like(leaf)
      assert.equal(leaf.dtype, results["gradient of " .. name].dtype)
   end
   return results
end

local function leaves_of(number, dtype)
   torch.manual_seed(number)
   local leaves = {
      full = torch.randn(C, C, 3, 3) / 6, point = torch.randn(C, C, 1, 1) / 2,
      depth = torch.randn(C, 1, 3, 3) / 3, bias = torch.rand(C) + 0.5,
   }
   for i = 1, SLOTS do leaves["x" .. i] = torch.randn(N, C, SIDE, SIDE) end
   for name, leaf in pairs(leaves) do leaves[name] = leaf:to(dtype) end
   return leaves
end

-- Returns the distance of two tensors, divided by the norm of the second one. If that norm is small, returns the
-- absolute distance instead, because some gradients are sums whose terms cancel.
local function distance(a, b)
   a, b = a:double(), b:double()
   return ((a - b):norm() / (b:norm() + 10)):item()
end

local function each_program(check)
   for number = FIRST, FIRST + PROGRAMS - 1 do
      local steps = program(number)
      local ok, message = pcall(check, number, steps)
      if not ok then
         local names = {}
         for i, step in ipairs(steps) do names[i] = table.concat(step, ",") end
         error(("program %d (%s): %s"):format(number, table.concat(names, " "), tostring(message)), 0)
      end
   end
end

describe("a random program", function()
   it("gives the same results and gradients in every memory format", function()
      each_program(function(number, steps)
         local leaves = leaves_of(number, "float64")
         local expected = run(steps, leaves, FORMATS.contiguous)
         for name, format in pairs(FORMATS) do
            for key, value in pairs(run(steps, leaves, format)) do
               local far = distance(value, expected[key])
               assert.is_true(far < 1e-9, ("%s, %s: %g"):format(name, key, far))
            end
         end
      end)
   end)

   it("gives results and gradients near to those of float32 under autocast", function()
      each_program(function(number, steps)
         local leaves = leaves_of(number, "float32")
         local expected = run(steps, leaves, FORMATS.contiguous)
         for name, format in pairs(FORMATS) do
            for key, value in pairs(run(steps, leaves, format, true)) do
               local far = distance(value, expected[key])
               -- Rounding changes which element of a window is the maximum. The gradient then goes to another element,
               -- so the bound for gradients is larger.
               local bound = key:find "^gradient" and 0.5 or 0.15
               assert.is_true(far < bound, ("%s, %s: %g"):format(name, key, far))
            end
         end
      end)
   end)
end)
