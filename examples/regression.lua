-- Fits a small network to noisy points, and draws the points and the fitted curve:
--
--    tlua examples/regression.lua
--    tlua examples/regression.lua --steps 500 --plot /tmp/fit.svg
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim

local parser = torch.utils.options("regression.lua", "Fits a curve through noisy points.")
parser:option("--points", "how many points there are", 256)
parser:option("--noise", "their standard deviation around the curve", 0.1)
parser:option("--steps", "steps of training", 1500)
parser:option("--lr", "learning rate of Adam", 1e-2)
parser:option("--seed", "what the random numbers start from", 1)
parser:option("--plot", "an SVG or PNG file for the picture", "")
local opt = parser:parse()

torch.manual_seed(opt.seed)

-- Data: y = sin(3x) + x/2 with noise, for x from -2 to 2 ----------------------------------------

local function curve(x)
   return (x * 3):sin() + x / 2
end

local x = torch.rand(opt.points, 1) * 4 - 2
local y = curve(x) + torch.randn(opt.points, 1) * opt.noise

-- Model and training ----------------------------------------------------------------------------

local model = nn.Sequential(
   nn.Linear(1, 64), nn.Tanh(),
   nn.Linear(64, 64), nn.Tanh(),
   nn.Linear(64, 1)
)
local optimizer = optim.Adam(model:parameters(), {lr = opt.lr})
local schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, opt.steps)
local criterion = nn.MSELoss()

local losses = {}
local bar = torch.utils.Progress {total = opt.steps, label = "training"}
for step = 1, opt.steps do
   optimizer:zero_grad()
   local loss = criterion(model(x), y)
   loss:backward()
   optimizer:step()
   schedule:step()
   losses[step] = loss:item()
   bar:step(1, ("loss %.4f"):format(losses[step]))
end
bar:finish(("%d steps, loss %.4f"):format(opt.steps, losses[#losses]))

-- What it has learnt ----------------------------------------------------------------------------

local grid = torch.linspace(-2, 2, 200):unsqueeze(2)
local fit = torch.no_grad(function() return model(grid) end)
local axis = grid:view(-1)

local figure = torch.utils.plot.curves({
   curve = {x = axis, y = curve(grid):view(-1)},
   network = {x = axis, y = fit:view(-1)},
}, {title = "sin(3x) + x/2, from noisy points"})
print(figure)
if opt.plot ~= "" then figure:save(opt.plot) end

local distance = (fit - curve(grid)):pow(2):mean():sqrt():item()
print(("root mean square distance from the curve: %.4f (noise: %.2f)"):format(distance, opt.noise))
