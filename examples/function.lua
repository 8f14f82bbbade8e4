-- Defines an autograd function that rounds numbers and passes their gradients through unchanged,
-- and uses the function to train a network whose weights are all -1, 0 or 1:
--
--    tlua examples/function.lua
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim

local parser = torch.utils.options("function.lua", "Trains a network of weights -1, 0 and 1.")
parser:option("--steps", "steps of training", 600)
parser:option("--lr", "learning rate of Adam", 1e-2)
parser:option("--seed", "what the random numbers start from", 1)
local opt = parser:parse()

torch.manual_seed(opt.seed)

-- `forward` computes the rounded numbers, `backward` their gradients. The true gradient of rounding
-- is zero almost everywhere, so a network would learn nothing from it. Therefore `backward` passes
-- gradients through unchanged, except for numbers outside of -1 to 1.
local Ternary = torch.class("Ternary", torch.autograd.Function)

function Ternary.forward(ctx, x)
   ctx:save_for_backward(x)
   return x:clamp(-1, 1):round()
end

function Ternary.backward(ctx, grad)
   local x = ctx:saved_tensors()
   return grad * x:abs():le(1)
end

-- A second function, x * sigmoid(x), has a hand-written derivative, and shows that gradcheck
-- distinguishes right gradients from wrong ones.
local Swish = torch.class("Swish", torch.autograd.Function)

function Swish.forward(ctx, x)
   ctx:save_for_backward(x)
   return x * x:sigmoid()
end

function Swish.backward(ctx, grad)
   local x = ctx:saved_tensors()
   local s = x:sigmoid()
   return grad * (s + x * s * (1 - s))
end

local probe = torch.randn(5, {dtype = "float64", requires_grad = true})
assert(torch.autograd.gradcheck(function(x) return Swish:apply(x) end, {probe}))
print "gradcheck of Swish: ok"

-- A linear layer that stores ordinary weights, but computes with rounded weights.
local TernaryLinear, parent = torch.class("TernaryLinear", nn.Linear)

function TernaryLinear:forward(input)
   return nn.functional.linear(input, Ternary:apply(self.weight), self.bias)
end

function TernaryLinear:extra_repr()
   return parent.extra_repr(self) .. ", weights -1, 0, 1"
end

-- The data are points in the plane; the class says whether a point lies in a ring.
local x = torch.rand(512, 2) * 4 - 2
local radius = x:pow(2):sum(2):sqrt()
local class = (radius:gt(0.8) & radius:lt(1.6)):long() + 1

local model = nn.Sequential(
   nn.Linear(2, 64), nn.ReLU(),
   TernaryLinear(64, 64), nn.ReLU(),
   nn.Linear(64, 2)
)
nn.init.uniform_(model[3].weight, -1, 1)
print(model)

local optimizer = optim.Adam(model:parameters(), {lr = opt.lr})
for step = 1, opt.steps do
   optimizer:zero_grad()
   local scores = model(x)
   local loss = nn.functional.cross_entropy(scores, class)
   loss:backward()
   optimizer:step()
   if step % (opt.steps // 5) == 0 then
      local right = scores:argmax(2):eq(class):float():mean():item()
      print(("step %4d  loss %.4f  accuracy %.3f"):format(step, loss:item(), right))
   end
end

local weights = Ternary:apply(model[3].weight)
print(("weights of -1: %d, 0: %d, 1: %d"):format(weights:eq(-1):sum():item(),
   weights:eq(0):sum():item(), weights:eq(1):sum():item()))
