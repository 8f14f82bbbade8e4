-- Recommendations: learns vectors of users and items from ratings. The table of items has a million
-- rows. A step uses only a few thousand of them, so the table's gradient is sparse, and SparseAdam
-- changes only these rows:
--
--    tlua examples/recommend.lua
--    tlua examples/recommend.lua --items 100000 --epochs 2
local torch = require "tlua"
local nn = torch.nn

local parser = torch.utils.options("recommend.lua", "Learns to predict ratings.")
parser:option("--items", "number of items", 1000000)
parser:option("--users", "number of users", 2000)
parser:option("--ratings", "number of ratings, of which a tenth is kept for the test", 1000000)
parser:option("--width", "size of a vector", 8)
parser:option("--epochs", "passes over the ratings", 3)
parser:option("--batch", "ratings in a step", 8192)
parser:option("--lr", "learning rate", 0.02)
parser:option("--seed", "what the random numbers start from", 1)
local opt = parser:parse()

torch.manual_seed(opt.seed)

-- The ratings, which are made up: a user likes an item as their hidden vectors agree -------------

local n = opt.ratings
local hidden <const> = 4
local tastes, traits = torch.randn(opt.users, hidden), torch.randn(opt.items, hidden)
local fame = torch.randn(opt.items) * 0.5
local user = torch.randint(1, opt.users + 1, {n})
-- the k-th most popular item is rated about 1 / k as often as the most popular one
local item = (torch.rand(n, {dtype = "float64"}) * math.log(opt.items)):exp():to("int64")
item = item:clamp(1, opt.items)
local rating = (tastes[user] * traits[item]):sum(2) * 0.4 + fame[item] + 3.5
   + torch.randn(n) * 0.25

local test <const> = n // 10
local function part(x, from, to) return x:narrow(1, from, to - from + 1) end

-- The model: the product of a user's and an item's vector, plus a number for each ----------------

local Recommender = torch.class("Recommender", nn.Module)

function Recommender:__init(mean)
   nn.Module.__init(self)
   self.users = nn.Embedding(opt.users, opt.width + 1, {sparse = true})
   self.items = nn.Embedding(opt.items, opt.width + 1, {sparse = true})
   self.mean = mean
   torch.no_grad(function()
      self.users.weight:mul_(0.1)
      self.items.weight:mul_(0.1)
   end)
end

function Recommender:forward(users, items)
   local u, v = self.users(users), self.items(items)
   local k = opt.width
   local agree = (u:narrow(2, 1, k) * v:narrow(2, 1, k)):sum(2)
   return agree + u:select(2, -1) + v:select(2, -1) + self.mean
end

local mean = part(rating, test + 1, n):mean():item()
local model = Recommender(mean)
local optimizer = torch.optim.SparseAdam(model:parameters(), {lr = opt.lr})

-- Returns the root mean squared error of the predictions for ratings that were not used in
-- training.
local function error_of(predict)
   return torch.no_grad(function()
      local off = predict(part(user, 1, test), part(item, 1, test)) - part(rating, 1, test)
      return off:square():mean():sqrt():item()
   end)
end

-- Training --------------------------------------------------------------------------------------

local rows
for epoch = 1, opt.epochs do
   local order = torch.randperm(n - test) + test
   for from = 1, n - test, opt.batch do
      local batch = part(order, from, math.min(from + opt.batch - 1, n - test))
      local predicted = model(user[batch], item[batch])
      optimizer:zero_grad()
      torch.nn.functional.mse_loss(predicted, rating[batch]):backward()
      optimizer:step()
      rows = rows or model.items.weight.grad:coalesce():_nnz()
   end
   print(("epoch %d: error %.3f"):format(epoch, error_of(model)))
end
print(("a step changes %d of %d items"):format(rows, opt.items))

-- Baselines: the mean of all ratings, and of each item's ratings ---------------------------------

local sums, counts = torch.zeros(opt.items), torch.zeros(opt.items)
local seen = part(item, test + 1, n)
sums:index_add_(1, seen, part(rating, test + 1, n) - mean)
counts:index_add_(1, seen, torch.ones(n - test))
local of_item = sums / (counts + 1)
print(("the mean of all: %.3f, the item's mean: %.3f, the model: %.3f"):format(
   error_of(function(_, items) return torch.full_like(items, mean, {dtype = "float32"}) end),
   error_of(function(_, items) return of_item[items] + mean end), error_of(model)))
