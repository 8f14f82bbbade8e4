-- Loads a network that PyTorch has trained (data/digits_mlp.safetensors, written by
-- data/digits_mlp.py), compares its scores with PyTorch's, and trains it further:
--
--    tlua examples/transfer.lua
--    tlua examples/transfer.lua --save /tmp/better.safetensors      for PyTorch to load
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim

local here = arg[0]:match "^(.*)/" or "."

local parser = torch.utils.options("transfer.lua", "Takes over a network that PyTorch has trained.")
parser:option("--epochs", "passes over the digits to train it further", 20)
parser:option("--lr", "learning rate of Adam", 2e-3)
parser:option("--seed", "what the random numbers start from", 1)
parser:option("--weights", "what PyTorch has saved", here .. "/data/digits_mlp.safetensors")
parser:option("--data", "lines of 64 pixels and the digit", here .. "/data/digits.csv")
parser:option("--save", "where the trained weights go, by PyTorch's names", "")
local opt = parser:parse()

torch.manual_seed(opt.seed)

-- The same layers, in the same order -------------------------------------------------------------

local model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

local state = torch.load(opt.weights)
local expected = state.expected                -- PyTorch's scores for the first three digits
state.expected = nil
model:load_state_dict(state, {names = "pytorch"}) -- PyTorch counts modules from 0, tlua from 1

-- Data: classes count from 1, so that the digit 0 is class 1; the scores' order is the same ------

local rows = torch.data.CSV(opt.data, {header = false}):tensor()
local images, classes = rows:narrow(2, 1, 64):float() / 16, rows:select(2, 65) + 1
local split = images:size(1) * 4 // 5
local digits = torch.data.TensorDataset(images[{{1, split}}], classes[{{1, split}}])
local test_images, test_classes = images[{{split + 1, -1}}], classes[{{split + 1, -1}}]

local function accuracy()
   local _ <close> = torch.no_grad()
   return model(test_images):argmax(2):eq(test_classes):float():mean():item()
end

local apart = torch.no_grad(function()
   return (model(images[{{1, 3}}]) - expected):abs():max():item()
end)
print(("scores differ from PyTorch's by %.1e at most"):format(apart))
assert(apart < 1e-4)
print(("test accuracy as PyTorch has left it: %.4f"):format(accuracy()))

-- Training goes on -------------------------------------------------------------------------------

local optimizer = optim.Adam(model:parameters(), {lr = opt.lr})
local loader = torch.data.DataLoader(digits, {batch_size = 64, shuffle = true})
local bar = torch.utils.Progress {total = opt.epochs, label = "training", unit = "epochs"}
for _ = 1, opt.epochs do
   for image, class in loader:iter() do
      optimizer:zero_grad()
      nn.functional.cross_entropy(model(image), class):backward()
      optimizer:step()
   end
   bar:step()
end
bar:finish()
print(("test accuracy after %d epochs more:    %.4f"):format(opt.epochs, accuracy()))

if opt.save ~= "" then
   torch.save(model:state_dict {names = "pytorch"}, opt.save)
   print("weights saved to " .. opt.save)
end
