-- GradScaler.lua - scales losses so that float16 gradients do not underflow to zero, and divides
-- the gradients by the scale before they are used. If a gradient is not finite, the step is skipped
-- and the scale is reduced. After `growth_interval` consecutive steps with finite gradients the
-- scale is increased.
--
-- A scaler keeps three numbers on the device of the losses: the scale, a flag that tells whether a
-- gradient was not finite (one for each optimizer), and the count of steps with finite gradients.
-- Optimizers derived from optim.Fused read these numbers on the device, so the program does not
-- wait, unless they count steps on the CPU for parameters elsewhere (does_it_itself). For these
-- and all other optimizers, step() reads the flag on the host.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local class = require "tlua.class"
local scopes = require "tlua.scope"
local Fused = require "tlua.optim.Fused"

--- Multiplies a loss by a scale, so that small gradients in float16 do not become 0. `step` divides
--- the gradients by the scale, and skips the optimizer's step if a gradient is infinite or NaN.
---
---     local w = torch.ones(1):requires_grad_()
---     local optimizer = torch.optim.SGD({w}, {lr = 0.5})
---     local scaler = torch.GradScaler("cpu", {init_scale = 1024})
---     scaler:scale(w:sum()):backward()
---     print(w.grad)
---     --> tensor([1024.])
---     scaler:step(optimizer)
---     scaler:update()
---     print(w:detach())
---     --> tensor([0.5000])
---@class amp.GradScaler
---@field get_growth_factor fun(self): number  the factor by which the scale grows
---@field set_growth_factor fun(self, value: number)  a number above 1
---@field get_backoff_factor fun(self): number  the factor by which the scale shrinks
---@field set_backoff_factor fun(self, value: number)  a number between 0 and 1
---@field get_growth_interval fun(self): integer  steps without infinities before the scale grows
---@field set_growth_interval fun(self, value: integer)  at least 1
local GradScaler = class.class("amp.GradScaler")

-- The state of an optimizer's gradients since the last update(). READY: the gradients are still
-- multiplied by the scale. UNSCALED: unscale_ has divided them by the scale. STEPPED: a step of the
-- optimizer has used them.
local READY <const>, UNSCALED <const>, STEPPED <const> = "ready", "unscaled", "stepped"

local signature = args.signature [[amp.GradScaler(device: device = 'cuda',
   init_scale: number = 65536.0, growth_factor: number = 2.0, backoff_factor: number = 0.5,
   growth_interval: integer = 2000, enabled: boolean = true)]]

local function check(condition, option, expected, value)
   if not condition then args.refuse("amp.GradScaler", option, expected, value) end
end

local function is_scale(value)
   return type(value) == "number" and value > 0 and value < math.huge
end

--- Makes a scaler. The scale and the growth counter are created on the device of the first loss or
--- gradient that the scaler gets.
---@param device? string|torch.device  without effect: the first loss or gradient determines the
--- device
---@param options? {init_scale: number, growth_factor: number, backoff_factor: number,
--- growth_interval: integer, enabled: boolean}
--- init_scale: 65536 by default; growth_factor: 2 by default; backoff_factor: 0.5 by default;
--- growth_interval: 2000 by default; enabled: true by default
function GradScaler:__init(...)
   local a = signature(...)
   check(is_scale(a.init_scale), "init_scale", "a number above 0", a.init_scale)
   check(a.growth_factor > 1, "growth_factor", "a number above 1", a.growth_factor)
   check(a.backoff_factor < 1 and a.backoff_factor > 0, "backoff_factor",
      "a number between 0 and 1", a.backoff_factor)
   check(a.growth_interval > 0, "growth_interval", "an integer above 0", a.growth_interval)
   self.enabled = a.enabled
   self._init_scale, self._init_growth = a.init_scale, 0
   self.growth_factor, self.backoff_factor = a.growth_factor, a.backoff_factor
   self.growth_interval = a.growth_interval
   self:forget()
end

--- Forgets all optimizers: empties the table that maps each optimizer to the stage of its gradients
--- and to `found`, a tensor that tells whether a gradient was not finite.
function GradScaler:forget()
   self.optimizers = setmetatable({}, {__mode = "k"})
end

-- Creates the scale and the growth counter, as soon as the device is known.
local function begin(self, device)
   if self.scale_number then return end
   self.scale_number = torch.full({}, self._init_scale, {dtype = "float32", device = device})
   self.growth = torch.full({}, self._init_growth, {dtype = "int32", device = device})
end

local function scale_all(self, value)
   if torch.is_tensor(value) then
      begin(self, value.device)
      return value * self.scale_number:to(value.device)
   elseif type(value) == "table" and not getmetatable(value) then
      local list = {}
      for key, item in pairs(value) do list[key] = scale_all(self, item) end
      return list
   end
   args.refuse("amp.GradScaler.scale", "outputs", "tensors or tables of them", value)
end

--- Multiplies a loss, or a table of losses, by the scale.
---@param outputs Tensor|table
---@return Tensor|table
function GradScaler:scale(outputs, ...)
   if select("#", ...) > 0 then
      args.refuse("amp.GradScaler.scale", "outputs", "one tensor or table", (...))
   end
   if not self.enabled then return outputs end
   return scale_all(self, outputs)
end

local function entry_of(self, optimizer, method)
   if type(optimizer) ~= "table" or not optimizer.param_groups then
      args.refuse("amp.GradScaler." .. method, "optimizer", "an optimizer", optimizer)
   end
   local entry = self.optimizers[optimizer]
   if not entry then
      entry = {stage = READY}
      self.optimizers[optimizer] = entry
   end
   return entry
end

-- Returns an optimizer's gradients as a table of lists, one for each pair of device and dtype, and
-- the number of gradients.
local function gradients(optimizer)
   local lists, count = {}, 0
   for _, group in ipairs(optimizer.param_groups) do
      for _, parameter in ipairs(group.params) do
         local grad = parameter.grad
         if grad then
            if torch._sparse_parts(grad) then grad = grad:_values() end
            local key = grad.device .. grad.dtype
            lists[key] = lists[key] or {}
            table.insert(lists[key], grad)
            count = count + 1
         end
      end
   end
   return lists, count
end

-- Multiplies the gradients by `factor`, and records in the tensor `entry.found` whether any
-- gradient was not finite.
local function check_gradients(self, optimizer, entry, factor, method)
   local lists, count = gradients(optimizer)
   if count == 0 then
      torch.raise("amp.GradScaler." .. method ..
         ": the optimizer has no gradients; was backward called?")
   end
   local _ <close> = torch.no_grad()
   local home = self.scale_number and self.scale_number.device
   local found = {}
   for _, list in pairs(lists) do
      local device = list[1].device
      begin(self, device)
      home = home or device
      found[device] = found[device] or torch.zeros({}, {device = device, dtype = "float32"})
      torch._amp_foreach_non_finite_check_and_unscale_(list, found[device], factor:to(device))
   end
   entry.found = nil
   for _, number in pairs(found) do
      number = number:to(home)
      entry.found = entry.found and torch.maximum(entry.found, number) or number
   end
   -- If parameters are split over ranks, each rank has checked only its own part. So the largest
   -- flag of all ranks becomes the flag of each rank.
   local placement = package.loaded["tlua.distributed.placement"]
   if placement then entry.found = placement.largest(optimizer, entry.found) end
end

--- Divides an optimizer's gradients by the scale, so that they may be clipped or read before
--- step(). For each optimizer, this method may be called once between two calls of update().
---@param optimizer optim.Optimizer
function GradScaler:unscale_(optimizer)
   if not self.enabled then return end
   local entry = entry_of(self, optimizer, "unscale_")
   if entry.stage == UNSCALED then
      torch.raise "amp.GradScaler.unscale_: called already since the last update()"
   elseif entry.stage == STEPPED then
      torch.raise "amp.GradScaler.unscale_: called after step(); update() comes between"
   end
   if not self.scale_number then
      torch.raise "amp.GradScaler.unscale_: no loss was scaled yet"
   end
   for _, group in ipairs(optimizer.param_groups) do
      for _, parameter in ipairs(group.params) do
         if parameter.grad and parameter.grad.dtype == "float16" then
            torch.raise("amp.GradScaler.unscale_: expected gradients in float32 or bfloat16, " ..
               "got float16: keep parameters in float32 and let autocast convert them")
         end
      end
   end
   check_gradients(self, optimizer, entry, self.scale_number:reciprocal(), "unscale_")
   entry.stage = UNSCALED
end

-- Returns whether an optimizer itself can divide by the scale and skip steps. For that, the
-- optimizer's step counts must be on the parameters' device, because counts on the CPU would not
-- show which steps were skipped.
local function does_it_itself(optimizer)
   if not class.isinstance(optimizer, Fused) then return false end
   if #optimizer.clocks == 0 then return true end
   for _, group in ipairs(optimizer.param_groups) do
      for _, parameter in ipairs(group.params) do
         if not group.capturable and not parameter.is_cpu then return false end
      end
   end
   return true
end

-- Returns whether all gradients are finite. This waits for the device, so it raises an error while
-- a CUDA graph is captured or a program is recorded.
local function is_finite(optimizer, found)
   local ok, number = pcall(found.item, found)
   if ok then return number == 0 end
   local why = tostring(number):match "item: (.*)$" or tostring(number)
   torch.raise(("amp.GradScaler.step: %s decides on the host whether to skip the step; %s: %s")
      :format(torch.type(optimizer), class.isinstance(optimizer, Fused)
      and "make it with capturable = true" or "use an optimizer that takes `capturable`", why))
end

-- Returns the fields to set in an optimizer that itself divides by the scale, and, if the step
-- clips the gradients, their norm before clipping. If the step is to clip, but the optimizer cannot
-- do so while it reads the gradients (clip_numbers returns nil), unscale_ divides the gradients
-- beforehand, and no fields are needed.
local function fields_of_step(self, optimizer, entry, options)
   local scale = self.scale_number
   local max_norm, norm_type = math.huge, math.huge
   if options then max_norm, norm_type = options.max_norm, options.norm_type end
   local norm, factor, found = optimizer:clip_numbers(max_norm, norm_type, scale)
   if norm then
      entry.found = found:to(scale.device)
      return {grad_scale = scale, clip = options and factor}, options and norm
   elseif options then
      self:unscale_(optimizer)
      return {}
   end
   check_gradients(self, optimizer, entry, torch.ones_like(scale), "step")
   return {grad_scale = scale}
end

-- Sets the fields that fields_of_step returns in an optimizer, makes the optimizer's step, and
-- removes the fields even if the step fails.
local function step_itself(self, optimizer, entry, options)
   local fields, norm = {}, nil
   if entry.stage == READY then
      fields, norm = fields_of_step(self, optimizer, entry, options)
   end
   local _ <close> = scopes.new(function()
      optimizer.grad_scale, optimizer.found_inf, optimizer.clip = nil, nil, nil
   end)
   optimizer.grad_scale, optimizer.clip = fields.grad_scale, fields.clip
   optimizer.found_inf = entry.found
   if norm then return optimizer:step(), norm end
   return (function(...) return ... end)(optimizer:step(options))
end

local options_of = args.signature "amp.GradScaler.step(max_norm: number, norm_type: number = 2)"

--- Calls optimizer:step(options) unless a gradient is infinite or NaN. If unscale_ was not called,
--- the gradients are first divided by the scale; with `max_norm` they are also clipped. An
--- optimizer derived from optim.Fused, if its step counts are on the parameters' device (always on
--- the CPU, elsewhere with `capturable`), divides while it reads the gradients, and leaves `grad`
--- unchanged. If it can, it also clips in that way.
---@param optimizer optim.Optimizer
---@param options? {max_norm: number, norm_type: number}  the options of the optimizer's step
---@return nil
---@return Tensor? norm  the norm of the gradients without the scale, before they were clipped
function GradScaler:step(optimizer, options)
   if not self.enabled then return optimizer:step(options) end
   if type(options) == "function" then
      torch.raise "amp.GradScaler.step: closures are not supported while it is enabled"
   end
   options = options and options_of(options)
   local entry = entry_of(self, optimizer, "step")
   if entry.stage == STEPPED then
      torch.raise "amp.GradScaler.step: called already for this optimizer since the last update()"
   end
   if not self.scale_number then
      torch.raise "amp.GradScaler.step: no loss was scaled yet"
   end
   local itself = does_it_itself(optimizer)
   if not itself and entry.stage == READY then self:unscale_(optimizer) end
   local results
   if itself then
      results = table.pack(step_itself(self, optimizer, entry, options))
   elseif is_finite(optimizer, entry.found) then
      results = table.pack(optimizer:step(options))
   else
      results = {n = 0}
   end
   entry.stage = STEPPED
   return table.unpack(results, 1, results.n)
end

--- Adjusts the scale after the steps of all optimizers, or sets it to `new_scale`.
---@param new_scale? number|Tensor
function GradScaler:update(new_scale)
   if not self.enabled then return end
   if not self.scale_number then torch.raise "amp.GradScaler.update: no loss was scaled yet" end
   local _ <close> = torch.no_grad()
   if new_scale ~= nil then
      local one = torch.is_tensor(new_scale) and new_scale:numel() == 1
         and new_scale.dtype == "float32"
      if not one and type(new_scale) ~= "number" then
         args.refuse("amp.GradScaler.update", "new_scale", "a number or a float32 tensor with one",
            new_scale)
      end
      if not one and not is_scale(new_scale) then
         args.refuse("amp.GradScaler.update", "new_scale", "a number above 0", new_scale)
      end
      self.scale_number:copy_(one and new_scale:detach():reshape({}) or torch.tensor(new_scale))
      self:forget()
      return
   end
   local found
   for _, entry in pairs(self.optimizers) do
      if entry.found then found = found and torch.maximum(found, entry.found) or entry.found end
   end
   if not found then
      torch.raise "amp.GradScaler.update: no gradients were looked at since the last update()"
   end
   torch._amp_update_scale_(self.scale_number, self.growth, found, self.growth_factor,
      self.backoff_factor, self.growth_interval)
   self:forget()
end

--- Returns the present scale, or 1 if the scaler is disabled; waits for the device.
---@return number
function GradScaler:get_scale()
   if not self.enabled then return 1.0 end
   return self.scale_number and self.scale_number:item() or self._init_scale
end

--- Returns the option `enabled`; a disabled scaler changes neither losses nor gradients.
---@return boolean
function GradScaler:is_enabled() return self.enabled end

for _, name in ipairs {"growth_factor", "backoff_factor", "growth_interval"} do
   --- Returns the value of the option that the method is named after.
   ---@names torch.GradScaler:get_growth_factor torch.GradScaler:get_backoff_factor
   ---@names torch.GradScaler:get_growth_interval
   ---@return number
   GradScaler["get_" .. name] = function(self) return self[name] end
   --- Changes the option that the method is named after.
   ---@names torch.GradScaler:set_growth_factor torch.GradScaler:set_backoff_factor
   ---@names torch.GradScaler:set_growth_interval
   ---@param value number
   GradScaler["set_" .. name] = function(self, value)
      if type(value) ~= "number" then
         args.refuse("amp.GradScaler.set_" .. name, "value", "a number", value)
      end
      self[name] = value
   end
   checked.methods(GradScaler, ("get_%s() set_%s(value: any)"):format(name, name))
end

--- Returns the scaler's state as plain data; empty if the scaler is not enabled.
---@return table
function GradScaler:state_dict()
   if not self.enabled then return {} end
   return {
      scale = self:get_scale(), growth_factor = self.growth_factor,
      backoff_factor = self.backoff_factor, growth_interval = self.growth_interval,
      _growth_tracker = self.growth and math.tointeger(self.growth:item()) or self._init_growth,
   }
end

--- Loads a state returned by state_dict.
---@param state table
function GradScaler:load_state_dict(state)
   if not self.enabled then return end
   if type(state) ~= "table" or not is_scale(state.scale) then
      args.refuse("amp.GradScaler.load_state_dict", "state",
         "a result of state_dict of an enabled scaler", state)
   end
   self._init_scale, self._init_growth = state.scale, state._growth_tracker or 0
   self.growth_factor, self.backoff_factor = state.growth_factor, state.backoff_factor
   self.growth_interval = state.growth_interval
   if self.scale_number then
      self.scale_number:fill_(self._init_scale)
      self.growth:fill_(self._init_growth)
   end
end

checked.methods(GradScaler, [[unscale_(optimizer: any) update(new_scale: any?) get_scale()
   is_enabled() state_dict() load_state_dict(state: any)]])

return GradScaler
