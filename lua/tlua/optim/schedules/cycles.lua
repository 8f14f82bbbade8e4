-- cycles.lua - schedules that raise and lower the rate: CyclicLR, OneCycleLR,
-- CosineAnnealingWarmRestarts.

local torch = require "tlua"
local args = require "tlua.args"
local json = require "tlua.utils.json"
local kinds = require "tlua.io.kinds"
local LRScheduler = require "tlua.optim.schedules.LRScheduler"

local M = {}
local of_group <const> = LRScheduler.of_group

-- Momentum --------------------------------------------------------------------------------------

local function set_momentum(group, momentum)
   if group.betas then
      group.betas = {momentum, table.unpack(group.betas, 2)}
   else
      group.momentum = momentum
   end
end

-- Before the first step, sets the momentum of each group (or the first of its betas) to the
-- maximum. Stores the limits of the momentum in the groups.
local function begin_momentum(self, name)
   local defaults = self.optimizer.defaults
   if not self.cycle_momentum then return end
   self:check_lists("base_momentum", "max_momentum")
   if defaults.momentum == nil and defaults.betas == nil then
      torch.raise(("%s: cycle_momentum: %s has neither momentum nor betas; set it to false"):format(
         name, torch.type(self.optimizer)))
   end
   if self.last_epoch ~= -1 then return end
   for g, group in ipairs(self.optimizer.param_groups) do
      group.max_momentum = of_group(self.max_momentum, g)
      group.base_momentum = of_group(self.base_momentum, g)
      set_momentum(group, group.max_momentum)
   end
end

-- CyclicLR --------------------------------------------------------------------------------------

-- Maps each mode of CyclicLR to {height, meaning}. height(self, x) returns the factor for the
-- height of a cycle. If meaning is "cycle", x is the number of the cycle, counted from 1. If
-- meaning is "iterations", x is the number of steps so far.
local modes <const> = {
   triangular = {function() return 1 end, "cycle"},
   triangular2 = {function(_, cycle) return 1 / 2 ^ (cycle - 1) end, "cycle"},
   exp_range = {function(self, step) return self.gamma ^ step end, "iterations"},
}

local function height_of(self, cycle)
   local mode = modes[self.mode]
   local scale_mode = self.scale_fn and self.scale_mode or mode[2]
   local x = scale_mode == "cycle" and cycle or self.last_epoch
   return self.scale_fn and self.scale_fn(x) or mode[1](self, x)
end

--- Moves the rate between base_lr and max_lr in cycles; call `step` after every batch.
--- If scale_fn is given, `scale_fn(x)` scales each cycle's height in place of `mode`. x is the
--- number of the cycle, counted from 1, if scale_mode is "cycle", and the number of steps if
--- scale_mode is "iterations". With cycle_momentum the momentum, or the first of betas, moves in
--- the opposite direction.
---
---     local weight = torch.zeros(1)
---     local optimizer = torch.optim.SGD({weight}, {lr = 1, momentum = 0.9})
---     local options = {step_size_up = 2}
---     local schedule = torch.optim.lr_scheduler.CyclicLR(optimizer, 0, 1, options)
---     optimizer:step()
---     schedule:step()
---     print(schedule:get_last_lr()[1])
---     --> 0.5
M.CyclicLR = LRScheduler.define("CyclicLR", [[base_lr: number|numbers, max_lr: number|numbers,
   step_size_up: number = 2000, step_size_down: number?, mode: string = 'triangular',
   gamma: number = 1, scale_fn: callable?, scale_mode: string = 'cycle',
   cycle_momentum: boolean = true, base_momentum: number|numbers = 0.8,
   max_momentum: number|numbers = 0.9]], function(self, _, _, g)
   local low, high = of_group(self.base_lr, g), of_group(self.max_lr, g)
   local up, down = self.step_size_up, self.step_size_down or self.step_size_up
   local within = self.last_epoch % (up + down)
   local share = within <= up and within / up or (up + down - within) / down
   local height = share * height_of(self, self.last_epoch // (up + down) + 1)
   if self.cycle_momentum then
      local least, most = of_group(self.base_momentum, g), of_group(self.max_momentum, g)
      set_momentum(self.optimizer.param_groups[g], most - (most - least) * height)
   end
   return low + (high - low) * height
end, function(self, name)
   if not modes[self.mode] then
      args.refuse(name, "mode", "triangular, triangular2 or exp_range", self.mode)
   end
   if self.scale_mode ~= "cycle" and self.scale_mode ~= "iterations" then
      args.refuse(name, "scale_mode", "cycle or iterations", self.scale_mode)
   end
   for _, option in ipairs {"step_size_up", "step_size_down"} do
      if self[option] and (self[option] ~= self[option] or self[option] <= 0) then
         args.refuse(name, option, "a number above 0", self[option])
      end
   end
   self:check_lists("base_lr", "max_lr")
   begin_momentum(self, name)
   if self.last_epoch ~= -1 then return end
   for g, group in ipairs(self.optimizer.param_groups) do
      self:set_lr(group, of_group(self.base_lr, g))
   end
end)

local function list_of(value, n)
   if type(value) == "table" then return table.move(value, 1, n, 1, {}) end
   local list = {}
   for g = 1, n do list[g] = value end
   return list
end

--- Converts the state to PyTorch's form: PyTorch stores the length of a cycle, and the fraction of
--- the cycle in which the rate rises.
---@return table
function M.CyclicLR:to_pytorch()
   local state, n = LRScheduler.to_pytorch(self), #self.optimizer.param_groups
   local up = self.step_size_up
   local total = up + (self.step_size_down or up)
   for _, name in ipairs {"base_lr", "step_size_up", "step_size_down", "scale_fn"} do
      state[name] = nil
   end
   state.base_lrs = list_of(self.base_lr, n)
   for _, name in ipairs {"max_lr", "base_momentum", "max_momentum"} do
      state[name .. "s"], state[name] = self[name] and list_of(self[name], n), nil
   end
   state.total_size, state.step_ratio = total + 0.0, up / total
   if not self.scale_fn then state.scale_mode = modes[self.mode][2] end
   state.use_beta1, state._scale_fn_custom = self.optimizer.defaults.betas ~= nil, json.null
   return state
end

function M.CyclicLR:from_pytorch(state)
   if not state.max_lrs then return state end
   local up = state.total_size * state.step_ratio
   if math.abs(up - math.floor(up + 0.5)) < 1e-9 * up then up = math.floor(up + 0.5) end
   return {
      base_lrs = state.base_lrs, last_epoch = state.last_epoch, mode = state.mode,
      base_lr = state.base_lrs, max_lr = state.max_lrs, step_size_up = up,
      step_size_down = state.total_size - up, gamma = state.gamma, scale_mode = state.scale_mode,
      cycle_momentum = state.cycle_momentum, base_momentum = state.base_momentums,
      max_momentum = state.max_momentums,
   }
end

-- OneCycleLR ------------------------------------------------------------------------------------

local function blend(shape, from, to, share)
   if shape == "linear" then return from + (to - from) * share end
   return to + (from - to) * (1 + math.cos(math.pi * share)) / 2
end

-- Returns a list of the phases of OneCycleLR. A phase is {the step at which it ends, and the names
-- of the fields with its initial rate, final rate, initial momentum and final momentum}.
local function phases_of(self)
   local n, first = self.total_steps, self.pct_start * self.total_steps
   local up = {first - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum"}
   if not self.three_phase then
      return {up, {n - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"}}
   end
   return {
      up, {2 * first - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"},
      {n - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"},
   }
end

-- Returns the phase of a step, and the fraction of the phase that is over.
local function phase_at(self, step)
   local start, phases = 0, phases_of(self)
   for i, phase in ipairs(phases) do
      local stop = phase[1]
      if step <= stop or i == #phases then
         return phase, stop == start and 1 or (step - start) / (stop - start)
      end
      start = stop
   end
end

local function check_one_cycle(self, name)
   local steps = self.total_steps
   if not steps then
      if not (self.epochs and self.steps_per_epoch) then
         torch.raise(name .. ": expected total_steps, or epochs and steps_per_epoch")
      end
      steps = self.epochs * self.steps_per_epoch
      self.total_steps = steps
   end
   if steps < 1 then args.refuse(name, "total_steps", "at least 1", steps) end
   if not (self.pct_start >= 0 and self.pct_start <= 1) then
      args.refuse(name, "pct_start", "a number from 0 to 1", self.pct_start)
   end
   if self.anneal_strategy ~= "cos" and self.anneal_strategy ~= "linear" then
      args.refuse(name, "anneal_strategy", "cos or linear", self.anneal_strategy)
   end
   self:check_lists("max_lr")
   begin_momentum(self, name)
   if self.last_epoch ~= -1 then return end
   for g, group in ipairs(self.optimizer.param_groups) do
      group.max_lr = of_group(self.max_lr, g)
      group.initial_lr = group.max_lr / self.div_factor
      group.min_lr = group.initial_lr / self.final_div_factor
   end
end

--- Raises the rate to max_lr and lowers it far below the first rate over total_steps, or epochs
--- times steps_per_epoch (Smith's one cycle); call `step` after every batch. With three_phase the
--- rate falls to the first rate as fast as it has risen, and then further. With cycle_momentum the
--- momentum, or the first of betas, moves in the opposite direction.
---
---     local weight = torch.zeros(1)
---     local optimizer = torch.optim.SGD({weight}, {lr = 1, momentum = 0.9})
---     local cycle = torch.optim.lr_scheduler.OneCycleLR
---     local schedule = cycle(optimizer, 1, {total_steps = 10})
---     print(("%.3f"):format(schedule:get_last_lr()[1])) -- max_lr / 25
---     --> 0.040
---     for _ = 1, 2 do
---        optimizer:step()
---        schedule:step() -- after every batch
---     end
---     print(("%.3f"):format(schedule:get_last_lr()[1]))
---     --> 1.000
M.OneCycleLR = LRScheduler.define("OneCycleLR", [[max_lr: number|numbers, total_steps: count?,
   epochs: count?, steps_per_epoch: count?, pct_start: number = 0.3,
   anneal_strategy: string = 'cos', cycle_momentum: boolean = true,
   base_momentum: number|numbers = 0.85, max_momentum: number|numbers = 0.95,
   div_factor: number = 25, final_div_factor: number = 1e4, three_phase: boolean = false]],
   function(self, _, _, g)
      local t, group = self.last_epoch, self.optimizer.param_groups[g]
      if t > self.total_steps then
         torch.raise(("optim.lr_scheduler.OneCycleLR: step %d of %d"):format(t, self.total_steps))
      end
      local phase, share = phase_at(self, t)
      local shape = self.anneal_strategy
      if self.cycle_momentum then
         set_momentum(group, blend(shape, group[phase[4]], group[phase[5]], share))
      end
      return blend(shape, group[phase[2]], group[phase[3]], share)
   end, check_one_cycle)

--- Converts the state to PyTorch's form: PyTorch stores each phase with the names of its limits.
---@return table
function M.OneCycleLR:to_pytorch()
   local phases = kinds.as_list {}
   for i, phase in ipairs(phases_of(self)) do
      phases[i] = {
         end_step = phase[1], start_lr = phase[2], end_lr = phase[3], start_momentum = phase[4],
         end_momentum = phase[5],
      }
   end
   local state = LRScheduler.to_pytorch(self)
   for _, name in ipairs(self.pytorch_names) do state[name] = nil end
   state.total_steps, state._schedule_phases = self.total_steps, phases
   state._anneal_func_type, state.cycle_momentum = self.anneal_strategy, self.cycle_momentum
   state.use_beta1 = self.optimizer.defaults.betas ~= nil
   return state
end

function M.OneCycleLR:from_pytorch(state)
   local phases = state._schedule_phases
   if not phases then return state end
   return {
      base_lrs = state.base_lrs, last_epoch = state.last_epoch, total_steps = state.total_steps,
      cycle_momentum = state.cycle_momentum, anneal_strategy = state._anneal_func_type,
      three_phase = #phases == 3, pct_start = (phases[1].end_step + 1) / state.total_steps,
   }
end

-- Warm restarts ---------------------------------------------------------------------------------

--- Lowers the rate along half a cosine, again and again. The first half cosine lasts T_0 epochs,
--- and each later one lasts T_mult times as long as the previous one (SGDR). `step(epoch)` goes to
--- any epoch, which may be a fraction.
---
---     local optimizer = torch.optim.SGD({torch.zeros(1)}, {lr = 1})
---     local warm = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts
---     local schedule = warm(optimizer, 2)
---     for _ = 1, 2 do
---        optimizer:step()
---        schedule:step()
---        print(("%.2f"):format(schedule:get_last_lr()[1])) -- begins anew after 2
---     end
---     --> 0.50
---     --> 1.00
local Restarts = LRScheduler.define("CosineAnnealingWarmRestarts",
   "T_0: count, T_mult: count = 1, eta_min: number = 0", function(self, _, base)
      local share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
      return self.eta_min + (base - self.eta_min) * share
   end, function(self, name)
      if self.T_0 < 1 then args.refuse(name, "T_0", "at least 1", self.T_0) end
      if self.T_mult < 1 then args.refuse(name, "T_mult", "at least 1", self.T_mult) end
      self.T_cur, self.T_i = self.last_epoch, self.T_0
   end)
Restarts.pytorch_names = {"T_0", "T_i", "T_mult", "eta_min", "T_cur"}
M.CosineAnnealingWarmRestarts = Restarts

-- Returns how many epochs lie between an epoch and the beginning of its half cosine, and the length
-- of that half cosine in epochs.
local function place(self, epoch)
   local length = self.T_0
   while epoch >= length do
      if self.T_mult == 1 then return epoch % length, length end
      epoch, length = epoch - length, length * self.T_mult
   end
   return epoch, length
end

---@param epoch? number  the next one by default
function Restarts:step(epoch)
   if epoch ~= nil and not (type(epoch) == "number" and epoch >= 0) then
      args.refuse(torch.type(self) .. ".step", "epoch", "a number of at least 0", epoch)
   end
   if epoch == nil and self.last_epoch < 0 then epoch = 0 end
   if epoch then
      self.T_cur, self.T_i = place(self, epoch)
   else
      epoch, self.T_cur = self.last_epoch + 1, self.T_cur + 1
      if self.T_cur >= self.T_i then
         self.T_cur, self.T_i = self.T_cur % self.T_i, self.T_i * self.T_mult
      end
   end
   self.last_epoch = math.floor(epoch) - 1
   LRScheduler.step(self)
end

return M
