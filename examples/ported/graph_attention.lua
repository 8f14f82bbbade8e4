-- A graph attention network (Velickovic et al. 2018) assigns ninety people to three groups of
-- friends. Only six of them have a known group:
--
--    tlua examples/ported/graph_attention.lua
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local F = nn.functional

local parser = torch.utils.options("graph_attention.lua", "Tells groups of friends apart.")
parser:option("--epochs", "training steps", 80)
parser:option("--lr", "learning rate of Adam", 1e-2)
parser:option("--seed", "seed of the random numbers", 1)
local opt = parser:parse()

torch.manual_seed(opt.seed)

-- There are three groups of 30 people. Friendships are likely within a group and rare across
-- groups.
local nodes, classes = 90, 3
local target = torch.arange(0, nodes):div(30, {rounding_mode = "floor"}):long() + 1
local same = target:unsqueeze(1):eq(target:unsqueeze(2))
local likely = torch.where(same, torch.tensor(0.25), torch.tensor(0.01))
local upper = torch.bernoulli(likely):triu(1)
local adjacency = (upper + upper:t() + torch.eye(nodes)):gt(0)
local features = torch.eye(nodes)

local GraphAttention, parent = torch.class("GraphAttention", nn.Module)

function GraphAttention:__init(in_features, out_features, heads, concat)
   parent.__init(self)
   self.heads, self.out_features, self.concat = heads, out_features, concat
   self.W = nn.Parameter(torch.empty(in_features, heads * out_features))
   self.a = nn.Parameter(torch.empty(2, heads, out_features))
   nn.init.xavier_uniform_(self.W)
   nn.init.xavier_uniform_(self.a)
end

-- Takes x (N, in) and a boolean adjacency matrix (N, N). Returns (N, heads * out) or, if concat is
-- false, (N, out).
function GraphAttention:forward(x, neighbours)
   local n = x:size(1)
   local h = torch.matmul(x, self.W):view(n, self.heads, self.out_features)
   local source = torch.einsum("nhf,hf->hn", h, self.a[1])
   local goal = torch.einsum("nhf,hf->hn", h, self.a[2])
   local e = F.leaky_relu(source:unsqueeze(3) + goal:unsqueeze(2), 0.2)
   local attention = F.softmax(e:masked_fill(~neighbours, -math.huge), -1)
   attention = F.dropout(attention, 0.3, self.training)
   local out = torch.einsum("hnm,mhf->nhf", attention, h)
   if self.concat then return out:flatten(2) end
   return out:mean(2)
end

local GAT = torch.class("GAT", nn.Module)

function GAT:__init()
   nn.Module.__init(self)
   self.first = GraphAttention(nodes, 8, 4, true)
   self.second = GraphAttention(32, classes, 1, false)
end

function GAT:forward(x, neighbours)
   x = F.elu(self.first(x, neighbours))
   return F.log_softmax(self.second(x, neighbours), 2)
end

local model = GAT()
local optimizer = optim.Adam(model:parameters(), {lr = opt.lr, weight_decay = 5e-4})
local known = torch.tensor {1, 15, 31, 45, 61, 75}

for _ = 1, opt.epochs do
   model:train()
   optimizer:zero_grad()
   F.nll_loss(model(features, adjacency)[known], target[known]):backward()
   optimizer:step()
end
model:eval()
local right = torch.no_grad(function()
   return model(features, adjacency):argmax(2):eq(target):float():mean():item()
end)
print(("accuracy over all nodes: %.3f"):format(right))
