-- noise.lua - random noise that is added to actions for exploration.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.rl.checks"

local M = {}

--- The base class of noise for actions between -1 and 1. It has the fields mean and sigma and the
--- method reset(dones). A derived class defines the method sample(n).
---
---     local rl = torch.rl
---     local noise = rl.NormalActionNoise({0}, {0.1})
---     print(torch.isinstance(noise, rl.ActionNoise))
---     --> true
---@class rl.ActionNoise
---@field mean Tensor  the means
---@field sigma Tensor  the standard deviations
M.ActionNoise = class.class("rl.ActionNoise")

local function begin(self, name, a)
   if #a.mean == 0 or #a.sigma ~= #a.mean then
      torch.raise(("%s: sigma: expected as many numbers as mean, got %d and %d"):format(name,
         #a.sigma, #a.mean))
   end
   for _, sigma in ipairs(a.sigma) do
      if not (sigma >= 0 and sigma < math.huge) then
         args.refuse(name, "sigma", "numbers of at least 0", sigma)
      end
   end
   self.mean, self.sigma = torch.tensor(a.mean):float(), torch.tensor(a.sigma):float()
end

local function check_dones(self, dones)
   checks.method(self, M.ActionNoise, "reset", "noise")
   local n = self.last and self.last:size(1)
   if dones == nil or torch.is_tensor(dones) and dones.dtype == "bool"
      and (not n or dones:numel() == n) then
      return
   end
   args.refuse(torch.type(self) .. ".reset", "dones", n
      and ("a bool tensor of %d elements"):format(n) or "a bool tensor", dones)
end

local function check_count(self, n)
   if math.type(n) == "integer" and n >= 1 then return end
   args.refuse(torch.type(self) .. ".sample", "n", "an integer of at least 1", n)
end

--- Restarts the noise of the environments whose episodes have ended.
---@param dones? Tensor  (N), true for each environment whose episode has ended; if nil, all
---  episodes have ended
function M.ActionNoise:reset(dones) check_dones(self, dones) end

-- Normal ------------------------------------------------------------------------------------------

--- Noise with a normal distribution, which is independent in each step.
---
---     local noise = torch.rl.NormalActionNoise({0, 0}, {0, 0})
---     print(noise:sample(1))
---     --> tensor([[0., 0.]])
---@class rl.NormalActionNoise: rl.ActionNoise
---@overload fun(mean: number[], sigma: number[]): rl.NormalActionNoise
local Normal = class.class("rl.NormalActionNoise", M.ActionNoise)
M.NormalActionNoise = Normal

local take_normal = args.signature "rl.NormalActionNoise(mean: numbers, sigma: numbers)"

---@param mean number[]  the means, one for each action
---@param sigma number[]  the standard deviations
function Normal:__init(...) begin(self, "rl.NormalActionNoise", take_normal(...)) end

--- Returns noise for the actions of n environments.
---@param n integer
---@return Tensor noise  (n, A)
function Normal:sample(n)
   checks.method(self, Normal, "sample", "noise")
   check_count(self, n)
   return self.mean + self.sigma * torch.randn(n, self.mean:numel())
end

-- Ornstein and Uhlenbeck --------------------------------------------------------------------------

--- Noise whose consecutive values are correlated (Uhlenbeck and Ornstein, 1930).
---
---     local noise = torch.rl.OrnsteinUhlenbeckActionNoise({1}, {0}, {dt = 1})
---     print(noise:sample(1):item() < noise:sample(1):item())
---     --> true
---@class rl.OrnsteinUhlenbeckActionNoise: rl.ActionNoise
---@overload fun(mean: number[], sigma: number[],
--- options?: table): rl.OrnsteinUhlenbeckActionNoise
local Process = class.class("rl.OrnsteinUhlenbeckActionNoise", M.ActionNoise)
M.OrnsteinUhlenbeckActionNoise = Process

local take_process = args.signature [[rl.OrnsteinUhlenbeckActionNoise(mean: numbers,
   sigma: numbers, theta: number = 0.15, dt: number = 0.01, initial_noise: numbers?)]]

---@param mean number[]  the means, one for each action
---@param sigma number[]  the standard deviations
---@param options? {theta: number, dt: number, initial_noise: number[]}  theta: how fast the noise
--- returns to the mean; dt: the duration of a step; initial_noise: the values before the first
--- step, 0 by default
function Process:__init(...)
   local a = take_process(...)
   begin(self, "rl.OrnsteinUhlenbeckActionNoise", a)
   for _, name in ipairs {"theta", "dt"} do
      if not (a[name] >= 0 and a[name] < math.huge) then
         args.refuse("rl.OrnsteinUhlenbeckActionNoise", name, "a number of at least 0", a[name])
      end
   end
   if a.initial_noise and #a.initial_noise ~= #a.mean then
      args.refuse("rl.OrnsteinUhlenbeckActionNoise", "initial_noise",
         ("a list of %d numbers"):format(#a.mean), a.initial_noise)
   end
   self.theta, self.dt = a.theta, a.dt
   self.first = a.initial_noise and torch.tensor(a.initial_noise):float()
      or torch.zeros(#a.mean)
end

--- Returns noise for the actions of n environments.
---@param n integer
---@return Tensor noise  (n, A)
function Process:sample(n)
   checks.method(self, Process, "sample", "noise")
   check_count(self, n)
   if not self.last or self.last:size(1) ~= n then
      self.last = self.first:expand(n, self.first:numel()):clone()
   end
   self.last = self.last + self.theta * (self.mean - self.last) * self.dt
      + self.sigma * math.sqrt(self.dt) * torch.randn(n, self.mean:numel())
   return self.last:clone()
end

--- Restarts the noise of the environments whose episodes have ended.
---@param dones? Tensor  (N), true for each environment whose episode has ended; if nil, all
---  episodes have ended
function Process:reset(dones)
   check_dones(self, dones)
   if dones == nil or self.last == nil then
      self.last = nil
   else
      self.last = torch.where(dones:view(-1, 1), self.first, self.last)
   end
end

return M
