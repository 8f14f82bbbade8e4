-- Tests torch.amp.GradScaler by comparing it with PyTorch's.

local torch = require "tlua"
local optim = torch.optim
local fixture = dofile "spec/fixtures/grad_scaler.lua"

local bad = {[4] = math.huge, [5] = 0 / 0, [10] = -math.huge}

local function inputs(step, device)
   local x = torch.tensor({0.5 * step + 1, -2.0, 0.25 * step})
   if bad[step] then x[2] = bad[step] end
   return x:to(device)
end

local makers = {
   SGD = function(p, more) return optim.SGD(p, {lr = 0.1, momentum = 0.9, capturable = more}) end,
   Adam = function(p, more) return optim.Adam(p, {lr = 0.1, capturable = more}) end,
   AdamW = function(p, more) return optim.AdamW(p, {lr = 0.1, weight_decay = 0.1, capturable = more}) end,
   Adafactor = function(p) return optim.Adafactor(p, {lr = 0.1}) end,
}

local function parameter(device) return torch.tensor({1.0, 2.0, -1.0}):to(device):requires_grad_() end

-- Repeats the training run of a row of the fixture, and compares the results. With `folded`, step() also clips the
-- gradients.
local function follow(row, device, capturable, folded)
   local p = parameter(device)
   local optimizer = makers[row.optimizer]({p}, capturable)
   local scaler = torch.amp.GradScaler(device, {init_scale = 1024, growth_interval = 3})
   for step = 0, #row.steps - 1 do
      optimizer:zero_grad()
      scaler:scale((inputs(step, device) * p):sum()):backward()
      if folded then
         local _, norm = scaler:step(optimizer, {max_norm = 1.0})
         if not bad[step] then assert.close(inputs(step, "cpu"):norm(), norm:cpu(), 1e-6) end
      else
         if row.clip then
            scaler:unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_({p}, 1.0)
         end
         scaler:step(optimizer)
      end
      scaler:update()
      local scale, values = table.unpack(row.steps[step + 1])
      assert.equal(scale, scaler:get_scale())
      assert.close(values, p:detach():cpu(), 2e-6)
   end
   assert.equal(row.tracker, scaler:state_dict()._growth_tracker)
   assert.is_nil(optimizer.found_inf)
   assert.is_nil(optimizer.grad_scale)
   assert.is_nil(optimizer.clip)
end

describe("GradScaler", function()
   for _, row in ipairs(fixture) do
      local how = row.optimizer .. (row.clip and ", clipped" or "")
      it("has the scales and steps of PyTorch's: " .. how, function() follow(row, "cpu") end)
      it("does it on a device: " .. how, function() follow(row, "sim") end)
      if row.clip then
         it("has the scales and steps of PyTorch's if step() clips: " .. how, function()
            follow(row, "cpu", false, true)
            follow(row, "sim", false, true)
            if row.optimizer ~= "Adafactor" then follow(row, "sim", true, true) end
         end)
      end
      if row.optimizer ~= "Adafactor" then
         it("does it on a device that keeps the clocks: " .. how, function() follow(row, "sim", true) end)
      end
   end

   local function waits(make, device, options)
      local p = parameter(device)
      local optimizer = make({p})
      local scaler = torch.amp.GradScaler(device)
      local function step(x)
         optimizer:zero_grad()
         scaler:scale((x * p):sum()):backward()
         scaler:step(optimizer, options)
         scaler:update()
      end
      local x = inputs(1, device)
      step(x)
      local before = torch.sim.waits()
      for _ = 1, 5 do step(x) end
      return (torch.sim.waits() - before) / 5
   end

   it("reads one number for each step, none if the optimizer reads it itself", function()
      assert.equal(1, waits(makers.Adafactor, "sim"))
      assert.equal(1, waits(makers.Adam, "sim"))
      assert.equal(0, waits(function(p) return makers.Adam(p, true) end, "sim"))
      assert.equal(0, waits(makers.SGD, "sim"))
      assert.equal(0, waits(makers.SGD, "sim", {max_norm = 1.0}))
   end)

   it("names the option that a captured step needs", function()
      local kind <const> = "sim"
      local x = torch.ones(3, {device = kind})
      for name, hint in pairs {Adam = "make it with capturable = true",
         Adafactor = "use an optimizer that takes `capturable`"} do
         local p = torch.ones(3, {device = kind, requires_grad = true})
         local optimizer, scaler = optim[name]({p}, {lr = 0.1}), torch.amp.GradScaler(kind)
         local function step()
            optimizer:zero_grad()
            scaler:scale((p * x):sum()):backward()
            scaler:step(optimizer)
            scaler:update()
         end
         step()
         local text = "amp.GradScaler.step: optim." .. name .. " decides on the host whether to skip the step; " .. hint
         assert.is_truthy(select(2, pcall(torch.export_step, step, {})):find(text, 1, true))
      end
   end)

   it("leaves gradients unchanged if the optimizer divides them by the scale", function()
      local p = parameter "cpu"
      local sgd = optim.SGD({p}, {lr = 1})
      local scaler = torch.amp.GradScaler({init_scale = 8})
      scaler:scale((p * 2):sum()):backward()
      local loss, norm = scaler:step(sgd, {max_norm = 1.0, norm_type = 1})
      assert.is_nil(loss)
      assert.equal(6, norm:item())
      assert.same({16, 16, 16}, p.grad:tolist())
      assert.close({1 - 1 / 3, 2 - 1 / 3, -1 - 1 / 3}, p, 1e-6)
      -- the next step() clips gradients that unscale_ has already divided by the scale
      scaler:update()
      scaler:unscale_(sgd)
      assert.equal(6, select(2, scaler:step(sgd, {max_norm = 6.0, norm_type = 1})):item())
      assert.close({-1 - 1 / 3, -1 / 3, -3 - 1 / 3}, p, 1e-6)
      assert.raises("amp.GradScaler.step: unknown option norm; did you mean",
         function() scaler:step(sgd, {norm = 1}) end)
   end)

   it("uses one scale for several optimizers", function()
      local a, b = parameter "cpu", parameter "cpu"
      local first, second = optim.SGD({a}, {lr = 1}), optim.SGD({b}, {lr = 1})
      local scaler = torch.amp.GradScaler({init_scale = 8})
      local x = torch.tensor({1.0, math.huge, 1}, {device = "cpu"})
      local losses = scaler:scale {(a * 2):sum(), (b * x):sum()}
      losses[1]:backward()
      losses[2]:backward()
      scaler:step(first)
      scaler:step(second)
      scaler:update()
      assert.same({-1, 0, -3}, a:tolist()) -- this optimizer has made its step, because its gradients were finite
      assert.same({1, 2, -1}, b:tolist())
      assert.equal(4, scaler:get_scale())
   end)

   it("continues from a saved state", function()
      local function scaler() return torch.amp.GradScaler({init_scale = 16, growth_interval = 2}) end
      local one, p = scaler(), parameter "cpu"
      local sgd = optim.SGD({p}, {lr = 0.1})
      local function step(s)
         s:scale(p:sum()):backward()
         s:step(sgd)
         s:update()
      end
      step(one)
      local state = one:state_dict()
      assert.same({scale = 16, growth_factor = 2, backoff_factor = 0.5, growth_interval = 2,
         _growth_tracker = 1}, state)
      local fresh, used = scaler(), scaler()
      step(used)
      step(used)
      assert.equal(32, used:get_scale())
      for _, s in ipairs {fresh, used} do
         s:load_state_dict(state)
         assert.equal(16, s:get_scale())
         step(s)
         assert.equal(32, s:get_scale())
      end
   end)

   it("does nothing when it is not enabled", function()
      local p = parameter "cpu"
      local sgd = optim.SGD({p}, {lr = 1})
      local scaler = torch.amp.GradScaler({enabled = false})
      local loss = p:sum()
      assert.equal(loss, scaler:scale(loss))
      loss:backward()
      scaler:unscale_(sgd)
      scaler:step(sgd)
      scaler:update()
      assert.same({0, 1, -2}, p:tolist())
      assert.equal(1, scaler:get_scale())
      assert.is_false(scaler:is_enabled())
      assert.same({}, scaler:state_dict())
   end)

   it("accepts a new scale, and returns its settings", function()
      local scaler = torch.amp.GradScaler()
      assert.equal(65536, scaler:get_scale())
      scaler:scale(torch.ones(1))
      scaler:update(128)
      assert.equal(128, scaler:get_scale())
      scaler:update(torch.tensor(64.0))
      assert.equal(64, scaler:get_scale())
      assert.same({2, 0.5, 2000}, {scaler:get_growth_factor(), scaler:get_backoff_factor(),
         scaler:get_growth_interval()})
      scaler:set_growth_interval(5)
      assert.equal(5, scaler:get_growth_interval())
   end)

   describe("refuses", function()
      local p, sgd, scaler
      before_each(function()
         p = parameter "cpu"
         sgd = optim.SGD({p}, {lr = 1})
         scaler = torch.amp.GradScaler({init_scale = 8})
         scaler:scale(p:sum()):backward()
      end)

      it("a second step before update, which changes nothing", function()
         scaler:step(sgd)
         local now = p:tolist()
         assert.raises("amp.GradScaler.step: called already for this optimizer", function() scaler:step(sgd) end)
         assert.same(now, p:tolist())
         scaler:update()
      end)

      it("a second unscale_, which changes nothing", function()
         scaler:unscale_(sgd)
         assert.same({1, 1, 1}, p.grad:tolist())
         assert.raises("amp.GradScaler.unscale_: called already", function() scaler:unscale_(sgd) end)
         assert.same({1, 1, 1}, p.grad:tolist())
         scaler:step(sgd)
         assert.raises("called after step(); update() comes between", function() scaler:unscale_(sgd) end)
      end)

      it("other calls that make no sense", function()
         assert.raises("update: no gradients were looked at", function() scaler:update() end)
         assert.raises("closures are not supported", function() scaler:step(sgd, print) end)
         assert.raises("step: optimizer: expected an optimizer, got 3", function() scaler:step(3) end)
         sgd:zero_grad()
         assert.raises("step: the optimizer has no gradients", function() scaler:step(sgd) end)
         assert.raises("growth_factor: expected a number above 1, got 1",
            function() torch.amp.GradScaler({growth_factor = 1.0}) end)
         assert.raises('amp.GradScaler: device: expected a device such as "cpu" or "cuda:0", got "bogus"',
            function() torch.amp.GradScaler("bogus") end)
         assert.raises("unknown option init_scal; did you mean init_scale?",
            function() torch.amp.GradScaler({init_scal = 1}) end)
         assert.raises("scale: outputs: expected tensors or tables of them, got 3", function() scaler:scale(3) end)
         local fresh = torch.amp.GradScaler()
         fresh:scale(torch.ones(1))
         for _, number in ipairs {-1, 0, 0 / 0, math.huge} do
            assert.raises("init_scale: expected a number above 0",
               function() torch.amp.GradScaler({init_scale = number}) end)
            assert.raises("update: new_scale: expected a number above 0", function() fresh:update(number) end)
            local state = fresh:state_dict()
            state.scale = number
            assert.raises("load_state_dict: state: expected a result of state_dict",
               function() fresh:load_state_dict(state) end)
         end
         assert.equal(65536, fresh:get_scale())
         local half = torch.ones(2, {dtype = "float16", requires_grad = true})
         local other = optim.Adafactor({half}, {lr = 1})
         scaler:scale(half:sum():float()):backward()
         assert.raises("expected gradients in float32 or bfloat16, got float16",
            function() scaler:unscale_(other) end)
      end)
   end)
end)

-- The expected states are those of PyTorch 2.15 after the same losses.
describe("the state of a GradScaler", function()
   local scales <const> = {8, 16, 16, 8, 8, 4, 4, 8}
   local trackers <const> = {1, 0, 1, 0, 1, 0, 1, 0}
   local losses <const> = {1, 1, 1, math.huge, 1, 0 / 0, 1, 1}
   local function state(scale, tracker)
      return {scale = scale, growth_factor = 2.0, backoff_factor = 0.5, growth_interval = 2,
         _growth_tracker = tracker}
   end

   it("equals PyTorch's after finite and non-finite steps", function()
      local p = torch.ones(1, {requires_grad = true})
      local optimizer = optim.SGD({p}, {lr = 0.1})
      local scaler = torch.amp.GradScaler("cpu", {init_scale = 8, growth_interval = 2})
      assert.same(state(8.0, 0), scaler:state_dict())
      for i, loss in ipairs(losses) do
         optimizer:zero_grad()
         scaler:scale((p * loss):sum()):backward()
         scaler:step(optimizer)
         scaler:update()
         assert.same(state(scales[i], trackers[i]), scaler:state_dict())
      end
      assert.close({0.4}, p, 1e-6)
      local other = torch.amp.GradScaler "cpu"
      other:load_state_dict(scaler:state_dict())
      assert.same(scaler:state_dict(), other:state_dict())
      assert.equal(8, other:get_scale())
   end)

   it("is empty for a scaler that is not enabled", function()
      assert.same({}, torch.amp.GradScaler("cpu", {enabled = false}):state_dict())
   end)

   it("is not changed by options that scale does not have", function()
      assert.raises("amp.GradScaler.scale: outputs: expected one tensor or table",
         function() torch.amp.GradScaler():scale(torch.ones(1), {factor = 2}) end)
   end)
end)
