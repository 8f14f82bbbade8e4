-- walker.lua - controls the creatures of the game. game.c calls these functions. It loads this file
-- again when the file changes, and keeps the weights.
--
-- Each creature has the weights `mean` plus its own random disturbance. After each round the mean
-- moves towards the disturbances of the creatures that came far (evolution strategies, Salimans and
-- others 2017, with mirrored disturbances and ranks).
local torch = require "tlua"

local HIDDEN <const>, SIGMA <const>, RATE <const> = 16, 0.1, 0.05
local M = {}

-- Starts the script. The arguments are two arrays in the host's memory: the creatures' senses (n x
-- senses) and the movements of their joints (n x joints, from -1 to 1), which the script writes.
-- `mean` has the weights of the script that was loaded before, or is nil.
function M.start(senses, joints, mean)
   M.senses, M.joints = senses, joints
   M.n, M.ins, M.outs = senses:size(1), senses:size(2), joints:size(2)
   M.first = (M.ins + 1) * HIDDEN
   torch.manual_seed(7)
   M.mean = mean or torch.randn(M.first + (HIDDEN + 1) * M.outs) * 0.3
   M.optimizer = torch.optim.Adam({M.mean}, {lr = RATE})
   M.begin()
end

-- Gives each creature its weights for the next round.
function M.begin()
   local half = torch.randn(M.n // 2, M.mean:numel())
   M.noise = torch.cat({half, -half}, 1)
   local weights = M.mean + SIGMA * M.noise
   -- the first creature has the mean itself, to show how well the mean walks
   weights[1]:copy_(M.mean)
   M.noise[1]:zero_()
   local first, second = weights[{{}, {1, M.first}}], weights[{{}, {M.first + 1, -1}}]
   M.first_layer = first:reshape(M.n, M.ins + 1, HIDDEN)
   M.second_layer = second:reshape(M.n, HIDDEN + 1, M.outs)
   M.one = torch.ones(M.n, 1, 1)
end

-- Computes the movements of all creatures from their senses, in each frame.
function M.act()
   local _ <close> = torch.no_grad()
   local x = torch.cat({M.senses:unsqueeze(2), M.one}, 3)
   local hidden = torch.cat({x:bmm(M.first_layer):tanh_(), M.one}, 3)
   M.joints:copy_(hidden:bmm(M.second_layer):tanh_():squeeze(2))
end

-- Learns from a round, in which the n creatures reached `scores`, and begins the next round.
function M.learn(scores)
   local ranks = scores:argsort():argsort():double() / (M.n - 1) - 0.5
   M.mean.grad = -(ranks:float():view(1, -1):mm(M.noise):view(-1)) / (M.n * SIGMA)
   M.optimizer:step()
   M.begin()
end

return M
