-- Tests memory formats. The expected strides are PyTorch 2.15's for the same calls. The expected values come from the
-- same calls with row-major inputs.

local torch = require "tlua"
local sorted = require "spec.support.sorted"
local F = torch.nn.functional

local last <const>, last3 <const> = {memory_format = torch.channels_last}, {memory_format = torch.channels_last_3d}
local plain <const> = {memory_format = torch.contiguous_format}

local function each(values, fn)
   local list = {}
   for i, v in ipairs(values) do list[i] = fn(v) end
   return list
end

local function strides(values) return each(values, function(t) return table.concat(t:stride(), ",") end) end

-- Returns the inputs. x (2, 3, 4, 6) and v (2, 3, 4, 6, 5) are channels-last. c has the same elements as x, but is
-- row-major.
local function inputs()
   torch.manual_seed(3)
   local x, v = torch.randn(2, 3, 4, 6), torch.randn(2, 3, 4, 6, 5)
   local w = torch.randn(5, 3, 3, 3)
   return {x = x:contiguous(last), v = v:contiguous(last3), c = torch.randn(2, 3, 4, 6), w = w}
end

-- Each row has a call and the strides that its result must have.
local CASES <const> = {
   {"add", "72,1,18,3", function(t) return t.x + t.x end},
   {"add a row-major one", "72,1,18,3", function(t) return t.x + t.c end},
   {"add to a row-major one", "72,24,6,1", function(t) return t.c + t.x end},
   {"add a number for each channel", "72,1,18,3", function(t) return t.x + t.w[{1, {}, 1, 1}]:view(1, 3, 1, 1) end},
   {"add to a number for each channel", "72,1,18,3", function(t) return t.w[{1, {}, 1, 1}]:view(1, 3, 1, 1) + t.x end},
   {"a part of the channels", "48,1,12,2", function(t) return t.x:narrow(2, 1, 2) * 2 end},
   {"every other column", "36,1,9,3", function(t) return t.x[{{}, {}, {}, {1, -1, 2}}] * 2 end},
   {"expanded", "72,24,6,1", function(t) return t.x:narrow(2, 1, 1):expand(2, 3, 4, 6) * 2 end},
   {"relu", "72,1,18,3", function(t) return F.relu(t.x) end},
   {"comparison", "72,1,18,3", function(t) return t.x:gt(0) end},
   {"int", "72,1,18,3", function(t) return t.x:int() end},
   {"double of a part", "48,1,12,2", function(t) return t.x:narrow(2, 1, 2):double() end},
   {"where", "72,1,18,3", function(t) return torch.where(t.x:gt(0), t.x, t.c) end},
   {"clamp", "72,1,18,3", function(t) return t.x:clamp(0, 1) end},
   {"flip", "72,1,18,3", function(t) return t.x:flip(2) end},
   {"roll", "72,1,18,3", function(t) return t.x:roll(1, 2) end},
   {"sort", "72,1,18,3 72,1,18,3", function(t) return t.x:sort(2) end},
   {"cat", "144,1,36,6", function(t) return torch.cat({t.x, t.x}, 2) end},
   {"cat of two orders", "144,24,6,1", function(t) return torch.cat({t.x, t.c}, 2) end},
   {"normalize", "72,1,18,3", function(t) return F.normalize(t.x) end},
   {"sum", "24,6,1", function(t) return t.x:sum(2) end},
   {"softmax", "72,24,6,1", function(t) return F.softmax(t.x, 2) end},
   {"clone", "72,1,18,3", function(t) return t.x:clone() end},
   {"clone of a part", "48,1,12,2", function(t) return t.x:narrow(2, 1, 2):clone() end},
   {"clone row-major", "72,24,6,1", function(t) return t.x:clone(plain) end},
   {"clone channels last", "72,1,18,3", function(t) return t.c:clone(last) end},
   {"contiguous", "72,24,6,1", function(t) return t.x:contiguous() end},
   {"contiguous, channels last", "72,1,18,3", function(t) return t.c:contiguous(last) end},
   {"to channels last", "72,1,18,3", function(t) return t.c:to(last) end},
   {"to row-major", "72,24,6,1", function(t) return t.x:to(plain) end},
   {"to another dtype and order", "72,24,6,1", function(t) return t.x:to("float64", plain) end},
   {"to another dtype", "72,1,18,3", function(t) return t.x:to("float64") end},
   {"double", "72,24,6,1", function(t) return t.x:double(plain) end},
   {"to a tensor's", "72,1,18,3", function(t) return t.c:to(t.c:double(), last) end},
   {"conv2d", "120,1,30,5", function(t) return F.conv2d(t.x, t.w, nil, 1, 1) end},
   {"conv2d by the weight", "120,1,30,5", function(t) return F.conv2d(t.c, t.w:contiguous(last), nil, 1, 1) end},
   {"conv2d of one element", "120,1,30,5", function(t) return F.conv2d(t.x, t.w[{{}, {}, {1, 1}, {1, 1}}]) end},
   {"conv2d unbatched", "8,4,1", function(t) return F.conv2d(t.x[1], t.w) end},
   {"conv_transpose2d", "144,1,24,3", function(t) return F.conv_transpose2d(t.x, t.w:narrow(1, 1, 3)) end},
   {"conv3d", "120,1,120,24,6", function(t) return F.conv3d(t.v, t.v:narrow(4, 1, 2):narrow(5, 1, 2)
      :reshape(6, 1, 4, 2, 2), nil, 1, 0, 1, 3) end},
   {"max_pool2d", "18,1,9,3 18,1,9,3", function(t) return F.max_pool2d(t.x, 2, {return_indices = true}) end},
   {"avg_pool2d", "18,1,9,3", function(t) return F.avg_pool2d(t.x, 2) end},
   {"adaptive_avg_pool2d", "12,1,6,3", function(t) return F.adaptive_avg_pool2d(t.x, 2) end},
   {"adaptive_max_pool2d", "12,1,6,3", function(t) return F.adaptive_max_pool2d(t.x, 2) end},
   {"max_pool3d", "36,1,18,6,3", function(t) return F.max_pool3d(t.v, 2) end},
   {"batch_norm", "72,1,18,3", function(t) return F.batch_norm(t.x, nil, nil, nil, nil, true) end},
   {"batch_norm in 3 dimensions", "360,1,90,15,3", function(t)
      return F.batch_norm(t.v, nil, nil, nil, nil, true) end},
   {"group_norm", "72,1,18,3", function(t) return F.group_norm(t.x, 3) end},
   {"instance_norm", "72,24,6,1", function(t) return F.instance_norm(t.x) end},
   {"layer_norm", "72,24,6,1", function(t) return F.layer_norm(t.x, {4, 6}) end},
   {"local_response_norm", "72,1,18,3", function(t) return F.local_response_norm(t.x, 2) end},
   {"interpolate, nearest", "288,1,36,3", function(t) return F.interpolate(t.x, {scale_factor = 2}) end},
   {"interpolate, bilinear", "288,1,36,3", function(t)
      return F.interpolate(t.x, {scale_factor = 2, mode = "bilinear"}) end},
   {"interpolate, trilinear", "2880,1,360,30,3", function(t)
      return F.interpolate(t.v, {scale_factor = 2, mode = "trilinear"}) end},
   {"pixel_unshuffle", "72,1,36,12", function(t) return F.pixel_unshuffle(t.x, 2) end},
   {"channel_shuffle", "72,1,18,3", function(t) return F.channel_shuffle(t.x, 3) end},
   {"pad", "96,1,24,3", function(t) return F.pad(t.x, {1, 1}) end},
   -- If a tensor has one channel, or one element for each channel, its strides fit both memory formats.
   {"conv2d to one channel", "24,1,6,1", function(t) return F.conv2d(t.x, t.w:narrow(1, 1, 1), nil, 1, 1) end},
   {"conv2d to one element", "5,1,5,5", function(t) return F.conv2d(t.x, t.w, nil, {2, 4}) end},
   {"conv_transpose2d to one channel", "48,1,8,1", function(t)
      return F.conv_transpose2d(t.x, t.w:narrow(1, 1, 3):narrow(2, 1, 1)) end},
   {"conv3d to one element", "2,1,2,2,2", function(t) return F.conv3d(t.v, t.v:contiguous()) end},
   {"max_pool2d to one element", "3,1,3,3 3,1,3,3", function(t)
      return F.max_pool2d(t.x, {4, 6}, {return_indices = true}) end},
   {"avg_pool2d of one channel", "6,1,3,1", function(t) return F.avg_pool2d(t.x:narrow(2, 1, 1), 2) end},
   {"adaptive_avg_pool2d to one element", "3,1,3,3", function(t) return F.adaptive_avg_pool2d(t.x, 1) end},
   {"adaptive_max_pool2d to one element", "3,1,3,3", function(t) return F.adaptive_max_pool2d(t.x, 1) end},
   {"interpolate, one channel", "96,1,12,1", function(t)
      return F.interpolate(t.x:narrow(2, 1, 1), {scale_factor = 2}) end},
   {"interpolate to one element", "3,1,3,3", function(t)
      return F.interpolate(t.x, {size = {1, 1}, mode = "bilinear"}) end},
   {"sort of one channel", "24,1,6,1 24,1,6,1", function(t) return t.x:narrow(2, 1, 1):sort(2) end},
   {"group_norm of one element", "3,1,3,3", function(t) return F.group_norm(F.max_pool2d(t.x, {4, 6}), 3) end},
   {"pad by reflection", "144,1,24,3", function(t) return F.pad(t.x, {1, 1, 1, 1}, {mode = "reflect"}) end},
}

describe("memory formats", function()
   for _, case in ipairs(CASES) do
      local name, expected, call = table.unpack(case)
      it(name .. " has PyTorch's strides, and the values of row-major inputs", function()
         local t, values = inputs(), inputs()
         for k, v in pairs(values) do values[k] = v:contiguous() end
         local got = {call(t)}
         assert.equal(expected, table.concat(strides(got), " "))
         for i, want in ipairs {call(values)} do
            assert.equal(want.dtype, got[i].dtype)
            assert.close(want, got[i], want:is_floating_point() and 1e-5 or 0)
         end
      end)
   end

   it("may be given when a tensor is created", function()
      local x, c = inputs().x, inputs().c
      assert.same({72, 1, 18, 3}, torch.empty(2, 3, 4, 6, last):stride())
      assert.same({360, 1, 90, 15, 3}, torch.empty({2, 3, 4, 6, 5}, last3):stride())
      for _, name in ipairs {"empty_like", "zeros_like", "ones_like", "rand_like", "randn_like"} do
         assert.same({72, 1, 18, 3}, torch[name](x):stride(), name)
         assert.same({72, 24, 6, 1}, torch[name](x, plain):stride(), name)
         assert.same({72, 1, 18, 3}, torch[name](c, last):stride(), name)
      end
      assert.same({72, 1, 18, 3}, torch.full_like(c, 3, last):stride())
      assert.same({72, 1, 18, 3}, torch.randint_like(c, 3, last):stride())
      assert.same({48, 1, 12, 2}, torch.empty_like(x:narrow(2, 1, 2)):stride())
      assert.same({72, 24, 6, 1}, x:new_empty({2, 3, 4, 6}):stride())
   end)

   it("of tensors copied to the host are applied after the copy", function()
      local c = inputs().c
      local here = c:to("cpu", {non_blocking = true, memory_format = torch.channels_last, dtype = "float64"})
      assert.same({72, 1, 18, 3}, here:stride())
      assert.close(c:double(), here, 0)
   end)

   it("may be given in a move to a device", function()
      local t = inputs()
      for _, there in ipairs {t.c:sim(last), t.c:sim("sim:1", last), t.c:sim(0, true, last), t.x:sim()} do
         assert.same({72, 1, 18, 3}, there:stride())
         assert.is_true(there:is_contiguous(last))
         assert.same({72, 24, 6, 1}, there:cpu(plain):stride())
      end
      assert.same({1, 8}, t.c[1][1]:reshape(3, 8):t():sim():stride())
      assert.same({48, 1, 12, 2}, t.x:narrow(2, 1, 2):sim(1):stride())
      assert.close(t.x:narrow(2, 1, 2):cpu(), t.x:narrow(2, 1, 2):sim(1):cpu(), 0)
      assert.equal(torch.device "sim:1", t.c:sim(1, {non_blocking = true}).device)
      assert.close(t.c, t.c:sim(1, {non_blocking = true}):cpu(), 0)
      assert.close(t.c, t.c:sim(last):cpu(), 0)
      for name, call in sorted {sim = t.c.sim, cpu = t.c.cpu} do
         assert.raises(name .. ": memory_format: expected torch.contiguous_format",
            function() call(t.c, {memory_format = "last"}) end)
      end
   end)

   it("are recognised by is_contiguous", function()
      local t = inputs()
      assert.is_false(t.x:is_contiguous())
      assert.is_true(t.x:is_contiguous(last))
      assert.is_false(t.c:is_contiguous(last))
      assert.is_false(t.x[1]:is_contiguous(last))
      assert.is_true(t.v:is_contiguous(last3))
      assert.is_false(t.v:is_contiguous(last))
      -- with one channel, or with one element in each channel, a contiguous tensor is also channels-last
      for _, sizes in ipairs {{2, 1, 4, 4}, {2, 3, 1, 1}} do
         local y = torch.randn(sizes)
         assert.is_true(y:is_contiguous() and y:is_contiguous(last))
      end
   end)

   it("copy nothing if the order is already right", function()
      local t = inputs()
      assert.equal(t.x:data_ptr(), t.x:contiguous(last):data_ptr())
      assert.equal(t.x:data_ptr(), t.x:to(last):data_ptr())
      assert.equal(t.c:data_ptr(), t.c:to(plain):data_ptr())
      assert.equal(t.x:data_ptr(), t.x:to {memory_format = torch.preserve_format}:data_ptr())
      assert.same({16, 1, 4, 1}, torch.randn(2, 1, 4, 4):to(last):stride())
      assert.same({16, 16, 4, 1}, torch.randn(2, 1, 4, 4):contiguous(last):stride())
   end)

   it("of gradients are those of their tensors", function()
      local t = inputs()
      local x, w = t.x:requires_grad_(true), t.w:contiguous(last):requires_grad_(true)
      local y = F.conv2d(x, w)
      y:backward(torch.randn(y.shape))
      assert.same({72, 1, 18, 3}, x.grad:stride())
      assert.same({27, 1, 9, 3}, w.grad:stride())
      local c = t.c:requires_grad_(true)
      c:contiguous(last):mul(2):sum():backward()
      assert.same({72, 24, 6, 1}, c.grad:stride())
      assert.close(torch.full_like(c, 2), c.grad, 0)
   end)

   -- Each row has the inputs x, weight and bias, and a function that calls the convolution.
   local convolutions <const> = {
      {{2, 3, 5, 6}, {4, 3, 3, 2}, 4, function(x, w, b) return F.conv2d(x, w, b, {2, 1}, 1) end},
      {{2, 4, 5, 6}, {6, 2, 3, 3}, 6, function(x, w, b) return F.conv2d(x, w, b, 1, {0, 1}, 1, 2) end},
      {{2, 3, 4, 5}, {3, 2, 3, 3}, 2, function(x, w, b) return F.conv_transpose2d(x, w, b, 2, 1) end},
      {{1, 2, 3, 4, 5}, {3, 2, 2, 2, 3}, 3, function(x, w, b) return F.conv3d(x, w, b, 1, 1) end},
   }

   local function convolved(case, dtype, format_x, format_w)
      local place = {dtype = dtype}
      local function laid(shape, format, seed)
         torch.manual_seed(seed)
         local t = torch.randn(shape, place)
         return (format and t:contiguous {memory_format = format} or t):requires_grad_(true)
      end
      local x, w, b = laid(case[1], format_x, 1), laid(case[2], format_w, 2), laid({case[3]}, nil, 3)
      local y = case[4](x, w, b)
      torch.manual_seed(4)
      y:backward(torch.randn(y.shape, place))
      return {y, x.grad, w.grad, b.grad}
   end

   it("of convolutions make no difference to their results and gradients", function()
      local tolerance <const> = {float64 = 1e-12, float32 = 1e-5, float16 = 1e-2, bfloat16 = 5e-2}
      local cudnn, tf32 = torch.backends.cudnn, torch.backends.cudnn.allow_tf32
      finally(function() cudnn.allow_tf32 = tf32 end)
      for _, case in ipairs(convolutions) do
         local format = #case[1] == 4 and torch.channels_last or torch.channels_last_3d
         for i, dtype in ipairs {"float32", "float64", "float32", "float16", "bfloat16"} do
            cudnn.allow_tf32 = i == 1
            local within = i == 1 and 1e-2 or tolerance[dtype]
            local want = convolved(case, dtype)
            for _, formats in ipairs {{format, format}, {format, false}, {false, format}} do
               local got = convolved(case, dtype, table.unpack(formats))
               for k, t in ipairs(got) do assert.close(want[k], t, within) end
               for k = 1, 2 do
                  assert.is_true(got[k + 1]:is_contiguous {memory_format = formats[k] or torch.contiguous_format})
               end
            end
         end
      end
   end)

   it("of a module are set by to", function()
      local nn = torch.nn
      local net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
      local x = inputs().x
      local want = net(x)
      assert.equal(net, net:to {memory_format = torch.channels_last})
      assert.same({27, 1, 9, 3}, net[1].weight:stride())
      assert.same({1}, net[1].bias:stride())
      assert.same({32, 1, 16, 4}, net(x):stride())
      assert.close(want, net(x), 1e-5)
      assert.raises("to: memory_format: expected torch.contiguous_format",
         function() net:to {memory_format = "last"} end)
   end)

   it("of images of three bytes a pixel become planes of any size", function()
      for _, size in ipairs {{1, 1}, {3, 5}, {16, 3}, {67, 129}, {150, 200}} do
         local planes = torch.randint(0, 256, {2, 3, size[1], size[2]}, {dtype = "uint8"})
         local pixels = planes:contiguous(last)
         assert.is_true(torch.equal(planes, pixels:contiguous()))
         assert.is_true(torch.equal(planes[2], pixels[2]:contiguous()))
         assert.is_true(torch.equal(planes:narrow(4, 1, 1), pixels:narrow(4, 1, 1):contiguous()))
      end
   end)

   it("that do not fit are errors", function()
      local x = torch.zeros(2, 3)
      for _, call in ipairs {
         function() return torch.empty(2, 3, last) end, function() return x:contiguous(last) end,
         function() return x:clone(last) end, function() return x:to(last) end,
         function() return torch.zeros_like(x, last) end,
      } do
         assert.raises("memory_format: channels_last is for tensors of 4 dimensions, got 2", call)
      end
      assert.raises("contiguous: memory_format: expected torch.contiguous_format, preserve_format, channels_last "
         .. "or channels_last_3d, got 'rows'", function() x:contiguous {memory_format = "rows"} end)
      assert.raises("preserve_format names no order",
         function() x:contiguous {memory_format = torch.preserve_format} end)
      assert.raises("empty: memory_format", function() torch.empty(2, {memory_format = torch.preserve_format}) end)
   end)
end)
