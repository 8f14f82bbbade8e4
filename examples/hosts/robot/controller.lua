-- Learns to balance a pole on a cart, and writes the controller for robot.c as one program:
--
--    tlua examples/hosts/robot/controller.lua --save cart.tlp
--
-- The policy learns from gradients through the cart's equations of motion. Each training step
-- simulates 32 carts, and follows the gradient of their mean distance from rest. The program also
-- contains a Kalman filter, because the robot measures only the positions of the cart and the pole,
-- with noise.
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim

local parser = torch.utils.options("controller.lua", "Learns to balance a pole on a cart.")
parser:option("--steps", "steps of training", 400)
parser:option("--seed", "what the random numbers start from", 1)
parser:option("--save", "where the program goes", "cart.tlp")
local opt = parser:parse()
torch.manual_seed(opt.seed)

-- The cart's equations, which robot.c has too. The cart has 1 kg; the pole has 0.1 kg and is 1 m
-- long. A state has the columns position (m), velocity (m/s), angle (rad, 0 is upright) and angular
-- velocity (rad/s).
local GRAVITY, CART, POLE, HALF = 9.8, 1.0, 0.1, 0.5
local TOTAL, MOST_FORCE = CART + POLE, 10

-- Returns the states after `seconds` with a force (N) on each cart, computed by one step of Euler's
-- method.
local function move(state, force, seconds)
   local x, v, angle, turn = table.unpack(state:unbind(2))
   local sin, cos = angle:sin(), angle:cos()
   local push = (force + POLE * HALF * turn * turn * sin) / TOTAL
   local bend = (GRAVITY * sin - cos * push) / (HALF * (4 / 3 - POLE * cos * cos / TOTAL))
   local speed_up = push - POLE * HALF * bend * cos / TOTAL
   return torch.stack({x + v * seconds, v + speed_up * seconds, angle + turn * seconds,
                       turn + bend * seconds}, 2)
end

-- The policy ------------------------------------------------------------------------------------

local policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1), nn.Tanh())
local function force_of(state) return policy(state):squeeze(2) * MOST_FORCE end

local optimizer = optim.Adam(policy:parameters(), {lr = 0.01})
local weights = torch.tensor {1, 0.1, 10, 0.1}
for step = 1, opt.steps do
   local state = (torch.rand(32, 4) - 0.5) * torch.tensor {1, 1, 0.5, 1}
   local cost = torch.zeros(1)
   for _ = 1, 100 do -- 100 steps take two seconds
      local force = force_of(state)
      state = move(state, force, 0.02)
      cost = cost + (state * state * weights):sum(2):mean() + 1e-3 * (force * force):mean()
   end
   optimizer:zero_grad()
   cost:backward()
   nn.utils.clip_grad_norm_(policy:parameters(), 10)
   optimizer:step()
   if step % 100 == 0 then print(("step %d, cost %.2f"):format(step, cost:item())) end
end

-- The filter ------------------------------------------------------------------------------------

-- Near the upright pole, one step of a millisecond is state * A^T + force * B, where A and B are
-- Jacobians of the equations. The filter uses the steady-state Kalman gain (Kalman 1960): the loop
-- below repeats the update until the covariance is constant.
local TICK = 1e-3
local rest, none = torch.zeros(1, 4), torch.zeros(1)
local jacobians = torch.func.jacrev(function(state, force) return move(state, force, TICK) end,
                                    {argnums = {1, 2}})(rest, none)
local A, B = jacobians[1]:view(4, 4), jacobians[2]:view(4)
-- only the position and the angle are measured
local C = torch.tensor {{1.0, 0, 0, 0}, {0, 0, 1, 0}}
local process = torch.diag(torch.tensor {1e-10, 1e-6, 1e-10, 1e-6})
-- variances: the standard deviations are a millimetre and a milliradian
local noise = torch.diag(torch.tensor {1e-6, 1e-6})
local covariance, gain = torch.eye(4), nil
for _ = 1, 5000 do
   local seen = C:mm(covariance):mm(C:t()) + noise
   gain = covariance:mm(C:t()):mm(torch.linalg.inv(seen))
   local after = covariance - gain:mm(C):mm(covariance)
   covariance = A:mm(after):mm(A:t()) + process
end

-- The program: from the expected state and a measurement to the next expected state and a force --

local Controller = torch.class("Controller", nn.Module)
function Controller:__init()
   nn.Module.__init(self)
   self.policy = policy
   self:register_buffer("A", A:t():contiguous())
   self:register_buffer("B", B:view(1, 4):clone())
   self:register_buffer("C", C:t():contiguous())
   self:register_buffer("gain", gain:t():contiguous())
end
function Controller:forward(expected, measured)
   local state = expected + (measured - expected:mm(self.C)):mm(self.gain)
   local force = self.policy(state) * MOST_FORCE
   return state:mm(self.A) + force * self.B, force
end

local program = torch.export(Controller():eval(), {torch.zeros(1, 4), torch.zeros(1, 2)})
program:save(opt.save)
print("the controller is in " .. opt.save)
