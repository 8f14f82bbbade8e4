-- ReplayBuffer.lua - stores the newest transitions of environments, and draws batches of
-- transitions.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.rl.checks"

local take = args.signature [[rl.ReplayBuffer(capacity: count, observation_size: count,
   action_size: count, prioritized: boolean = false, alpha: number = 0.6)]]

--- Stores the newest transitions, and draws batches of them: uniformly, or by priorities (Schaul et
--- al., 2016).
---
---     local buffer = torch.rl.ReplayBuffer(10, 2, 1)
---     local x = torch.ones(3, 2)
---     buffer:add(x, torch.ones(3, 1), torch.ones(3), 2 * x, torch.zeros(3))
---     print(#buffer, buffer:sample(5).next_observations[1])
---     --> 3	tensor([2., 2.])
---@class rl.ReplayBuffer
---@overload fun(capacity: integer, observation_size: integer, action_size: integer,
--- options?: table): rl.ReplayBuffer
local ReplayBuffer = class.class("rl.ReplayBuffer")

---@param capacity integer  the greatest number of transitions
---@param observation_size integer  the number of elements of an observation
---@param action_size integer  the number of elements of an action
---@param options? {prioritized: boolean, alpha: number}  alpha: how strongly priorities influence
--- the draw, from 0 (not at all)
function ReplayBuffer:__init(...)
   local a = take(...)
   checks.ranges("rl.ReplayBuffer", a)
   if a.capacity < 1 then args.refuse("rl.ReplayBuffer", "capacity", "at least 1", a.capacity) end
   self.capacity, self.size, self.at = a.capacity, 0, 0
   self.prioritized, self.alpha = a.prioritized, a.alpha
   -- Each row has a whole transition, so that one call draws a batch of them. The operating system
   -- provides the memory of a row only when the row is first written.
   self.sizes = {a.observation_size, a.action_size}
   self.rows = torch.empty(a.capacity, 2 * a.observation_size + a.action_size + 2)
   self.columns = self:_split(self.rows)
   if a.prioritized then
      self.priorities, self.highest = torch.zeros(a.capacity), 1.0
   end
end

-- Returns views of some rows of the buffer, one for each part of a transition: observations,
-- actions, rewards, next observations, and whether the task has ended.
function ReplayBuffer:_split(rows)
   local size, actions = self.sizes[1], self.sizes[2]
   local pair = size + actions
   return {rows:narrow(2, 1, size), rows:narrow(2, size + 1, actions), rows:select(2, pair + 1),
      rows:narrow(2, pair + 3, size), rows:select(2, pair + 2)}
end

--- Returns the number of transitions.
function ReplayBuffer:__len() return self.size end

--- Adds transitions. When the buffer is full, new transitions replace the oldest ones.
---@param observations Tensor  (N, observation_size)
---@param actions Tensor  (N, action_size)
---@param rewards Tensor  (N)
---@param next_observations Tensor  (N, observation_size)
---@param terminated Tensor  (N), 1 where the task has ended
function ReplayBuffer:add(observations, actions, rewards, next_observations, terminated)
   checks.method(self, ReplayBuffer, "add", "buffer")
   if not torch.is_tensor(observations) or observations:dim() ~= 2 then
      args.refuse("rl.ReplayBuffer.add", "observations", ("a tensor of shape (N, %d)"):format(
         self.columns[1]:size(2)), observations)
   end
   local n, given = observations:size(1), {observations, actions, rewards, next_observations,
      terminated}
   local names <const> = {"observations", "actions", "rewards", "next_observations", "terminated"}
   for i, column in ipairs(self.columns) do
      local shape = column:dim() == 1 and ("(%d)"):format(n)
         or ("(%d, %d)"):format(n, column:size(2))
      local x = given[i]
      if not torch.is_tensor(x) or x:dim() ~= column:dim() or x:size(1) ~= n
            or column:dim() == 2 and x:size(2) ~= column:size(2) then
         args.refuse("rl.ReplayBuffer.add", names[i], "a tensor of shape " .. shape, x)
      end
   end
   local _ <close> = torch.no_grad()
   local from = 0
   while from < n do
      local count = math.min(n - from, self.capacity - self.at)
      for i, column in ipairs(self.columns) do
         column:narrow(1, self.at + 1, count):copy_(given[i]:narrow(1, from + 1, count))
      end
      if self.prioritized then self.priorities:narrow(1, self.at + 1, count):fill_(self.highest) end
      self.at, from = (self.at + count) % self.capacity, from + count
      self.size = math.min(self.size + count, self.capacity)
   end
end

--- Draws a batch of transitions.
---@param batch_size integer  the number of transitions
---@param beta? number  how strongly the weights correct for drawing by priorities, 1 by default
---@return {observations: Tensor, actions: Tensor, rewards: Tensor, next_observations: Tensor,
--- terminated: Tensor, indices: Tensor, weights: Tensor?} batch
function ReplayBuffer:sample(batch_size, beta)
   checks.method(self, ReplayBuffer, "sample", "buffer")
   if self.size == 0 then torch.raise("rl.ReplayBuffer.sample: the buffer is empty") end
   if math.type(batch_size) ~= "integer" or batch_size < 1 then
      args.refuse("rl.ReplayBuffer.sample", "batch_size", "an integer of at least 1", batch_size)
   end
   if beta ~= nil and not (type(beta) == "number" and beta >= 0) then
      args.refuse("rl.ReplayBuffer.sample", "beta", "a number of at least 0", beta)
   end
   local indices, weights
   if self.prioritized then
      local chances = self.priorities:narrow(1, 1, self.size):pow(self.alpha)
      indices = torch.multinomial(chances, batch_size, true)
      local p = chances:index_select(1, indices) / chances:sum()
      weights = (p * self.size):pow(-(beta or 1))
      weights = weights / weights:max()
   else
      indices = torch.randint(1, self.size + 1, {batch_size})
   end
   local list = self:_split(self.rows:index_select(1, indices))
   return {observations = list[1], actions = list[2], rewards = list[3],
      next_observations = list[4], terminated = list[5], indices = indices, weights = weights}
end

--- Sets the priorities of transitions that were drawn.
---@param indices Tensor  (N) int64, the indices of a batch
---@param priorities Tensor  (N), for example the errors; their absolute values are used
function ReplayBuffer:update_priorities(indices, priorities)
   checks.method(self, ReplayBuffer, "update_priorities", "buffer")
   if not self.prioritized then
      torch.raise("rl.ReplayBuffer.update_priorities: expected prioritized = true")
   end
   local title <const> = "rl.ReplayBuffer.update_priorities"
   if not torch.is_tensor(indices) or indices:dim() ~= 1 or indices.dtype ~= "int64" then
      args.refuse(title, "indices", "an int64 tensor of one dimension", indices)
   end
   local n = indices:numel()
   if not torch.is_tensor(priorities) or priorities:dim() ~= 1 or priorities:numel() ~= n
         or priorities:is_complex() then
      args.refuse(title, "priorities", ("real numbers of shape (%d)"):format(n), priorities)
   end
   if n == 0 then return end
   local least, most = torch.aminmax(indices)
   for _, index in ipairs {least:item(), most:item()} do
      if index < 1 or index > self.size then
         args.refuse(title, "indices", ("positions from 1 to %d, the number of transitions"):format(
            self.size), index)
      end
   end
   local values = priorities:detach():to(self.priorities.dtype):abs() + 1e-6
   if not values:isfinite():all():item() then
      args.refuse(title, "priorities", "finite numbers", priorities)
   end
   self.priorities:index_copy_(1, indices, values)
   self.highest = math.max(self.highest, values:max():item())
end

return ReplayBuffer
