-- Tests convolutions with packed weights and max pooling of channels-last images by comparing them with conv2d and
-- max_pool2d. Also tests that programs of torch.compile and quantize_ that call these operators give the model's
-- results.

local torch = require "tlua"
local device = require "spec.support.device"
local nn = torch.nn
local F = nn.functional

-- Returns a weight (out, in, height, width) in panels of at most 64 columns, which is the layout that the operator
-- expects, and the bias. The bias is 0 for columns that belong to no channel.
local function packed(weight, bias)
   local n = weight:size(1)
   local rows = weight:permute(3, 4, 2, 1):reshape(-1, n)
   local vectors = (n + 15) // 16
   local all, long = torch.zeros(rows:size(1), vectors * 16), torch.zeros(vectors * 16)
   all[{{}, {1, n}}] = rows
   long[{{1, n}}] = bias
   local panels, list, at = (vectors + 3) // 4, {}, 1
   for i = 1, panels do
      local wide = 16 * (vectors // panels + (i <= vectors % panels and 1 or 0))
      list[i] = all:narrow(2, at, wide):reshape(-1)
      at = at + wide
   end
   return torch.cat(list), long
end

local function single(weight) return weight:reshape(weight:size(1), -1):t():contiguous() end

-- Each row has {input channels, output channels, kernel, stride, padding, dilation, whether each channel has its own
-- kernel}.
local cases <const> = {
   {3, 8, {3, 3}, 1, 1, 1}, {1, 33, {3, 3}, 2, 1, 1}, {16, 24, {1, 1}, 1, 0, 1}, {24, 144, {1, 1}, 1, 0, 1},
   {130, 70, {3, 2}, 2, {1, 0}, 1}, {300, 160, {1, 1}, 1, 0, 1}, {5, 3, {2, 3}, 1, {3, 2}, {1, 2}},
   {16, 16, {3, 3}, 1, 1, 1, true}, {40, 40, {5, 5}, 2, 2, 1, true}, {72, 72, {3, 3}, 1, 2, 2, true},
}

describe("packed convolutions", function()
   before_each(function() torch.manual_seed(5) end)

   -- Calls fn for each case with two functions: a convolution by conv2d, and the same convolution with a packed weight.
   local function each(fn)
      for _, case in ipairs(cases) do
         local from, to, kernel, stride, padding, dilation, own = table.unpack(case, 1, 7)
         local weight = torch.randn(to, own and 1 or from, kernel[1], kernel[2])
         local bias = torch.randn(to)
         local given, long = (own and single or packed)(weight, bias), bias
         if not own then given, long = packed(weight, bias) end
         local function expected(x)
            return F.conv2d(x:double(), weight:double(), bias:double(), stride, padding, dilation, own and from or 1)
         end
         local function got(x, low, high, other)
            return torch._conv2d_packed(x, given, long, to, kernel, low, high, stride, padding, dilation, own or false,
               other)
         end
         fn(from, expected, got)
      end
   end

   it("equal conv2d with a sum and limits, in any format of the input", function()
      if device.name == "cuda" then return pending "the operators are on the CPU alone" end
      each(function(from, expected, got)
         for _, sizes in ipairs {{1, 7, 7}, {2, 14, 9}, {1, 5, 40}} do
            local x = torch.randn(sizes[1], from, sizes[2], sizes[3])
            local y = expected(x)
            -- These are sums of up to 780 products in float32. Each addition may have an error of 6e-8 times the sum so
            -- far.
            local size = y:abs():max():item()
            local function check(given, other)
               local sum = other and y + other or y
               assert.is_true((got(given, -math.huge, math.huge, other) - sum):abs():max():item() < 4e-6 * size)
               local limited = got(given, -0.5, 2.0, other)
               assert.is_true((limited - sum:clamp(-0.5, 2)):abs():max():item() < 4e-6 * size)
               assert.is_true(limited:is_contiguous {memory_format = "channels_last"})
            end
            check(x)
            check(x:contiguous {memory_format = "channels_last"}, torch.randn(y.shape))
            check(x, torch.randn(y.shape):contiguous {memory_format = "channels_last"})
            check(x, torch.randn(1, y:size(2), 1, 1))
            local first = got(x[1], -math.huge, math.huge)
            assert.same({y:size(2), y:size(3), y:size(4)}, first.shape)
            assert.is_true((first - y[1]):abs():max():item() < 4e-6 * size)
         end
      end)
   end)

   it("give the same bits for every number of threads", function()
      if device.name == "cuda" then return pending "the operators are on the CPU alone" end
      local threads <const> = torch.get_num_threads()
      each(function(from, _, got)
         local x, results = torch.randn(1, from, 21, 18), {}
         for i = 1, 3 do
            torch.set_num_threads(i)
            results[i] = got(x, 0.0, 6.0)
         end
         torch.set_num_threads(threads)
         assert.is_true(torch.equal(results[1], results[2]) and torch.equal(results[1], results[3]))
      end)
   end)

   it("keep NaN", function()
      if device.name == "cuda" then return pending "the operators are on the CPU alone" end
      each(function(from, expected, got)
         local x = torch.randn(1, from, 9, 9)
         x[{1, 1, 5, 5}] = 0 / 0
         assert.is_true(torch.equal(expected(x):isnan(), got(x, 0.0, 6.0):isnan()))
      end)
   end)

   it("find the largest elements of windows", function()
      if device.name == "cuda" then return pending "the operators are on the CPU alone" end
      for _, channels in ipairs {16, 40, 64} do
         for _, case in ipairs {{2, 2, 0, 1}, {3, 2, 1, 1}, {{3, 2}, 1, {1, 0}, {1, 2}}} do
            local x = torch.randn(2, channels, 9, 11)
            x[{1, 3, 4, 4}], x[{2, 1, 1, 1}] = 0 / 0, -math.huge
            local kernel, stride, padding, dilation = table.unpack(case)
            local expected = F.max_pool2d(x, kernel, stride, padding, dilation)
            local got = torch._max_pool2d_packed(x, kernel, stride, padding, dilation)
            assert.is_true(torch.equal(expected:isnan(), got:isnan()))
            assert.is_true(torch.equal(expected:nan_to_num(9), got:nan_to_num(9)))
            expected = F.max_pool2d(x, kernel, stride, padding, dilation, true)
            got = torch._max_pool2d_packed(x, kernel, stride, padding, dilation, true)
            assert.is_true(torch.equal(expected:nan_to_num(9), got:nan_to_num(9)))
         end
      end
      -- The last window would begin in the padding after the image, so it is left out.
      local x = torch.randn(1, 16, 5, 6)
      assert.is_true(torch.equal(F.max_pool2d(x, 2, 4, 1, 1, true), torch._max_pool2d_packed(x, 2, 4, 1, 1, true)))
   end)

   it("refuse other tensors", function()
      local w, b, x = torch.ones(64), torch.ones(16), torch.ones(1, 4, 3, 3)
      local function refused(message, ...)
         local given = table.pack(...)
         assert.raises("_conv2d_packed", message, function()
            torch._conv2d_packed(table.unpack(given, 1, given.n))
         end)
      end
      refused("self: expected (N, C, H, W)", x:to "int64", w, b, 3, 1, 0.0, 6.0)
      refused("self: expected (N, C, H, W)", torch.ones(1, 4), w, b, 3, 1, 0.0, 6.0)
      refused("weight: expected 256 elements of a floating dtype, got float32 [64]", x, w, b, 3, 2, 0.0, 6.0)
      refused("bias: expected 16 elements of a floating dtype, got float32 [3]", x, w, b[{{1, 3}}], 3, 1, 0.0, 6.0)
      refused("channels: expected 1 to 2147483647, got 0", x, w, b, 0, 1, 0.0, 6.0)
      refused("at least 16 channels", x, w, b, 4, 1, 0.0, 6.0, 1, 0, 1, true)
      refused("the kernel is larger", x, w, b, 3, 4, 0.0, 6.0)
      assert.raises("_max_pool2d_packed", "at least 16 channels", function() torch._max_pool2d_packed(x, 2) end)
   end)
end)

-- A network with the parts of residual networks: batch norm, sums before and after a relu, max pooling, means.
local Net = torch.class("Net", nn.Module)
function Net:__init()
   nn.Module.__init(self)
   self.first = nn.Sequential(nn.Conv2d(3, 24, 3, {stride = 2, padding = 1, bias = false}), nn.BatchNorm2d(24),
      nn.ReLU6())
   self.own = nn.Sequential(nn.Conv2d(24, 24, 3, {padding = 1, groups = 24}), nn.ReLU())
   self.second, self.third = nn.Conv2d(24, 24, 1), nn.Conv2d(24, 24, 3, {padding = 1})
   self.fourth = nn.Conv2d(24, 40, 3)
   self.last = nn.Linear(40, 5)
   self.first[2].running_mean:uniform_(-0.2, 0.2)
   self.first[2].running_var:uniform_(0.5, 2)
end
function Net:forward(x)
   local y = F.max_pool2d(self.first(x), 3, 2, 1)
   local z = self.second(self.own(y)) + y
   local sum = self.third(z)
   sum:add_(self.second(z)):relu_()
   y = F.relu(self.fourth(self.second(sum)))
   return self.last(F.adaptive_avg_pool2d(y, 1):flatten(2)), y, y:reshape(y:size(1), -1) * 2
end

describe("channels-last programs", function()
   local model, x, expected, default

   -- Only programs for the CPU have packed weights.
   before_each(function()
      default = torch.get_default_device()
      torch.set_default_device "cpu"
      torch.manual_seed(6)
      model, x = Net():eval(), torch.randn(2, 3, 32, 36)
      local _ <close> = torch.no_grad()
      expected = {model(x)}
   end)
   after_each(function() torch.set_default_device(default) end)

   local function text_of(program)
      local text = tostring(program)
      return text, select(2, text:gsub("_conv2d_packed%(", "")), select(2, text:gsub("_quantized_conv2d%(", ""))
   end

   it("find the largest elements of joined images as they are", function()
      local _ <close> = torch.no_grad()
      local first, second = nn.Conv2d(3, 16, 3), nn.Conv2d(3, 24, 3)
      local function pooled(image)
         return F.max_pool2d(torch.cat({first(image), second(image)}, 2), 3, {stride = 2, ceil_mode = true})
      end
      local program = torch.export(pooled, {x}, {names = {"x"}})
      rawset(program, "graph_", require "tlua.compile.optimize"(program.graph_))
      assert.truthy(tostring(program):find("_max_pool2d_packed", 1, true))
      assert.close(pooled(x), program(x), 1e-5)
   end)

   it("are read from files that are older than an operator's last arguments", function()
      local program = torch.export(function(image) return torch._max_pool2d_packed(image, 2, 2) end,
         {torch.ones(1, 16, 4, 4)})
      local path, given = os.tmpname(), torch.randn(1, 16, 4, 4)
      program:save(path)
      local file <close> = assert(io.open(path, "r+b"))
      local place = file:read "a":find(",[1],false]", 1, true)
      file:seek("set", place - 1)
      file:write ",[1]      ]"
      file:flush()
      assert.is_true(F.max_pool2d(given, 2):equal(torch.export.load(path)(given)))
      file:seek("set", place - 1)
      file:write "]          "
      file:flush()
      assert.raises("operator _max_pool2d_packed: expected 6 arguments", function() torch.export.load(path) end)
      os.remove(path)
   end)

   it("of torch.compile merge sums, activations and pools, and return row-major results", function()
      local _ <close> = torch.no_grad()
      local program = torch.export(model, {x})
      rawset(program, "graph_", require "tlua.compile.optimize"(program.graph_))
      local text, count = text_of(program)
      assert.equal(7, count, text)
      for _, name in ipairs {"add", "relu", "relu6", "batch_norm", "[^_]conv2d", "max_pool2d%("} do
         assert.is_nil(text:find("= " .. name), text)
         assert.is_nil(text:find("\n  " .. name), text)
      end
      assert.truthy(text:find("_max_pool2d_packed", 1, true))
      local compiled = torch.compile(model)
      for _ = 1, 4 do compiled(x) end
      for _, run in ipairs {program, compiled} do
         local got = {run(x)}
         for i, tensor in ipairs(expected) do
            assert.close(tensor, got[i], 1e-5)
            assert.same(tensor:stride(), got[i]:stride())
         end
      end
   end)

   it("of torch.export keep convolutions for which Winograd's method is faster", function()
      local _ <close> = torch.no_grad()
      local images = torch.randn(1, 64, 40, 40)
      local function count_packed(layer)
         local program = torch.export(layer:eval(), {images}, {optimize = true})
         assert.close(layer(images), program(images), 1e-4)
         return select(2, text_of(program))
      end
      assert.equal(0, count_packed(nn.Sequential(nn.Conv2d(64, 64, 3), nn.ReLU())))
      assert.equal(1, count_packed(nn.Sequential(nn.Conv2d(64, 64, 3, {stride = 2}), nn.ReLU())))
      assert.equal(1, count_packed(nn.Sequential(nn.Conv2d(64, 64, 1), nn.ReLU())))
   end)

   it("of torch.compile keep channels-last results", function()
      local _ <close> = torch.no_grad()
      local layers = nn.Sequential(nn.Conv2d(3, 20, 3, {bias = false}), nn.BatchNorm2d(20), nn.ReLU()):eval()
      local image = x:contiguous {memory_format = "channels_last"}
      local plain, compiled = layers(image), torch.compile(layers)
      for _ = 1, 4 do compiled(image) end
      assert.same(plain:stride(), compiled(image):stride())
      assert.close(plain, compiled(image), 1e-5)
   end)

   it("of quantize_ pass bytes between convolutions, and stay as they were when they are saved", function()
      local program = torch.export(model, {x})
      torch.ao.quantization.quantize_(program, {kind = "static", calibration = {x}})
      local text, single_count, count = text_of(program)
      assert.same({0, 7}, {single_count, count}, text)
      assert.truthy(text:find "out_scale = 0%.%d*[1-9]", text)
      assert.is_nil(text:find("\n  add", 1, true), text)
      local got = {program(x)}
      for i, tensor in ipairs(expected) do
         assert.is_true(((got[i] - tensor):norm() / tensor:norm()):item() < 0.04)
         assert.same(tensor:stride(), got[i]:stride())
      end
      local path <const> = os.tmpname()
      program:save(path)
      local loaded = {torch.export.load(path)(x)}
      os.remove(path)
      for i, tensor in ipairs(got) do assert.is_true(torch.equal(tensor, loaded[i])) end
   end)
end)

describe("quantized convolutions", function()
   it("round their results to bytes, add a tensor and have an upper limit", function()
      if device.name == "cuda" then return pending "the operators are on the CPU alone" end
      torch.manual_seed(7)
      local x, weight = torch.randn(2, 8, 6, 5), torch.randint(-127, 128, {5, 18, 16, 4}):to "int8"
      local n <const>, scale <const> = 70, 0.01
      local scales, bias = torch.rand(n) * 1e-3, torch.randn(n)
      local sums = weight:float():sum({2, 4}):view(-1)[{{1, n}}]:to "int32"
      local function run(input, most, out_scale, out_zero, other)
         return torch._quantized_conv2d(input, weight, scales, sums, bias, 3, 1, 1, 1, scale, 128, most > 0, most,
            out_scale, out_zero, other)
      end
      local plain = run(x, 0.0, 0.0, 0)
      local other = torch.randn(plain.shape)
      assert.is_true(torch.equal((plain + other):clamp(0, 1.5), run(x, 1.5, 0.0, 0, other)))
      local small = torch.randn(1, n, 1, 1)
      assert.is_true(torch.equal((plain + small):clamp(0, 1.5), run(x, 1.5, 0.0, 0, small)))
      local bytes = run(x, 0.0, 0.05, 100)
      assert.equal("uint8", bytes.dtype)
      local inverse = torch.tensor(1 / torch.tensor(0.05):item()):item()
      assert.is_true(torch.equal(((plain * inverse):round() + 100):clamp(0, 255), bytes:float()))
      local rounded = ((x * torch.tensor(1 / torch.tensor(scale):item()):item()):round() + 128):clamp(0, 255):to "uint8"
      assert.is_true(torch.equal(plain, run(rounded, 0.0, 0.0, 0)))
   end)
end)
