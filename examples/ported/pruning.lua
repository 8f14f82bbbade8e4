-- Prunes a trained network step by step until only a tenth of its weights remains, and trains these
-- weights further:
--
--    tlua examples/ported/pruning.lua
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local prune = nn.utils.prune

local here = arg[0]:match "^(.*)/" or "."

local parser = torch.utils.options("pruning.lua", "Prunes a network.")
parser:option("--epochs", "passes over the digits for each share of weights", 3)
parser:option("--seed", "seed of the random numbers", 1)
local opt = parser:parse()

torch.manual_seed(opt.seed)

local rows = torch.data.CSV(here .. "/../data/digits.csv", {header = false}):tensor()
local images, classes = rows:narrow(2, 1, 64):float():div(16), rows:select(2, 65) + 1
local train = torch.data.TensorDataset(images[{{1, 1400}}], classes[{{1, 1400}}])
local loader = torch.data.DataLoader(train, {batch_size = 64, shuffle = true})

local model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

local function train_model()
   local optimizer = optim.Adam(model:parameters(), {lr = 5e-3})
   for _ = 1, opt.epochs do
      for image, class in loader:iter() do
         optimizer:zero_grad()
         nn.functional.cross_entropy(model(image), class):backward()
         optimizer:step()
      end
   end
end

local function report(label)
   local zeros, all = 0, 0
   for _, layer in ipairs {model[1], model[3]} do
      zeros = zeros + layer.weight:eq(0):sum():item()
      all = all + layer.weight:numel()
   end
   local right = torch.no_grad(function()
      return model(images[{{1401, -1}}]):argmax(2):eq(classes[{{1401, -1}}]):float():mean():item()
   end)
   print(("%-12s %4.1f %% of weights, accuracy %.3f"):format(label, 100 - 100 * zeros / all, right))
end

train_model()
report "trained"
local parameters_to_prune = {{model[1], "weight"}, {model[3], "weight"}}
for step = 1, 4 do
   prune.global_unstructured(parameters_to_prune,
      {pruning_method = prune.L1Unstructured, amount = 0.44})
   train_model()
   report("pruned " .. step)
end
for _, pair in ipairs(parameters_to_prune) do prune.remove(table.unpack(pair)) end
assert(not prune.is_pruned(model))
print "the masks are gone, the zeros stay"
