-- advantages.lua - estimates the advantages of actions: by how much an action's return exceeds the
-- expected return.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.rl.checks"

local M = {}

local take = args.signature [[rl.compute_gae(rewards: tensor, values: tensor, dones: tensor,
   last_values: tensor, gamma: number, gae_lambda: number)]]

--- Computes generalised advantage estimates (Schulman et al., 2016).
---
---     local ones = torch.ones(3, 1)
---     local advantages, returns = torch.rl.compute_gae(ones, torch.zeros(3, 1),
---        torch.zeros(3, 1), torch.zeros(1), 1.0, 1.0)
---     print(advantages:view(-1), returns:view(-1))
---     --> tensor([3., 2., 1.])	tensor([3., 2., 1.])
---@param rewards Tensor  (T, N)
---@param values Tensor  (T, N), the estimated values of the observations before each step
---@param dones Tensor  (T, N), 1 where an episode has ended with the step
---@param last_values Tensor  (N), the estimated values of the observations after the last step
---@param gamma number  the discount factor
---@param gae_lambda number  a number from 0 (one step) to 1 (whole returns)
---@return Tensor advantages  (T, N)
---@return Tensor returns  (T, N)
function M.compute_gae(...)
   local a = take(...)
   checks.ranges("rl.compute_gae", a)
   local rewards, values, dones, last_values = a.rewards, a.values, a.dones, a.last_values
   local gamma, gae_lambda = a.gamma, a.gae_lambda
   if rewards:dim() < 1 then
      args.refuse("rl.compute_gae", "rewards", "a tensor of shape (T, N)", rewards)
   end
   for _, name in ipairs {"values", "dones"} do
      if a[name]:size() ~= rewards:size() then
         args.refuse("rl.compute_gae", name, "a tensor of the shape of rewards", a[name])
      end
   end
   if rewards:numel() > 0 and last_values:size() ~= rewards[1]:size() then
      args.refuse("rl.compute_gae", "last_values", "a tensor of the shape of one step of rewards",
         last_values)
   end
   if rewards:size(1) == 0 then
      args.refuse("rl.compute_gae", "rewards", "at least one step", rewards)
   end
   local _ <close> = torch.no_grad()
   local steps = rewards:size(1)
   local list, next_values, sum = {}, last_values, torch.zeros_like(last_values)
   for t = steps, 1, -1 do
      local goes_on = 1 - dones[t]
      local delta = rewards[t] + gamma * next_values * goes_on - values[t]
      sum = delta + gamma * gae_lambda * goes_on * sum
      list[t], next_values = sum, values[t]
   end
   local advantages = torch.stack(list)
   return advantages, advantages + values
end

return M
