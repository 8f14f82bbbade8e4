-- MixtureOfExperts.lua - a layer of many small networks (experts) on different ranks. Each position
-- of the input uses a few experts. The positions are sent to the ranks of these experts, which send
-- the results back.
--
-- "Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts Layer" (Shazeer et
-- al., 2017); "GShard" (Lepikhin et al., 2021): an all_to_all before and after the experts; "Switch
-- Transformers" (Fedus et al., 2022), equation 4: the load-balancing loss. No position is dropped.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local device_mesh = require "tlua.distributed.device_mesh"
local placement = require "tlua.distributed.placement"
local Linear = require "tlua.nn.modules.Linear"
local Module = require "tlua.nn.modules.Module"
local ModuleDict = require "tlua.nn.modules.ModuleDict"

---     local dist = torch.distributed
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local experimental = dist.tensor.experimental
---     local layer = experimental.MixtureOfExperts(8, 16, 4, {top_k = 2})
---     print(layer(torch.ones(2, 3, 8)).shape, #layer.experts)
---     dist.destroy_process_group()
---     --> torch.Size([2, 3, 8])	4
---@class distributed.tensor.MixtureOfExperts: nn.Module
---@field router nn.Linear  the layer that chooses experts, the same on all ranks
---@field experts nn.ModuleDict  this rank's experts, indexed by their numbers among all experts
---@field aux_loss Tensor?  the load-balancing loss of the last call; 1 if the load is even
---@overload fun(width: integer, hidden: integer, num_experts: integer, options?: table):
---@     distributed.tensor.MixtureOfExperts
local MoE, parent = class.class("distributed.tensor.MixtureOfExperts", Module)

local Expert, expert_parent = class.class("distributed.tensor.Expert", Module)

function Expert:__init(width, hidden)
   expert_parent.__init(self)
   self.up = Linear(width, hidden)
   self.down = Linear(hidden, width)
end

function Expert:forward(x)
   return self.down(torch.nn.functional.gelu(self.up(x)))
end

local take = args.signature [[MixtureOfExperts(width: count, hidden: count, num_experts: count,
   top_k: count = 2, mesh: object?)]]

-- Divides an expert's gradient by the number of ranks. This gradient is a sum over all ranks'
-- losses, whereas other parameters get the mean over ranks.
local function average(parameter, n)
   parameter:register_hook(function(grad) return grad / n end)
end

--- Makes the layer. Each of the num_experts networks is Linear(width, hidden), GELU and
--- Linear(hidden, width). All ranks of a mesh (all ranks by default) make the layer with the same
--- seed, and each keeps its own experts.
---@param width integer
---@param hidden integer
---@param num_experts integer  a multiple of the number of ranks
---@param options? {top_k: integer, mesh: distributed.DeviceMesh}  top_k: the number of experts that
--- a position uses, 2 by default
function MoE:__init(...)
   parent.__init(self)
   local a = take(...)
   local name <const> = "MixtureOfExperts"
   local group = device_mesh.group_of(name, a.mesh)
   local n = #group.ranks
   if a.num_experts == 0 or a.num_experts % n ~= 0 then
      args.refuse(name, "num_experts", ("a multiple of the %d ranks"):format(n), a.num_experts)
   end
   if a.top_k < 1 or a.top_k > a.num_experts then
      args.refuse(name, "top_k", ("1 to %d"):format(a.num_experts), a.top_k)
   end
   local function keep(field, value) rawset(self, field, value) end
   keep("group", group)
   keep("top_k", a.top_k)
   keep("num_experts", a.num_experts)
   keep("here", a.num_experts // n)
   self.router = Linear(a.width, a.num_experts, {bias = false})
   self.experts = ModuleDict()
   for i = 1, a.num_experts do
      -- every rank draws all experts, so that all ranks draw the same random numbers
      local expert = Expert(a.width, a.hidden)
      if (i - 1) // self.here == group.group_rank then
         self.experts:set(tostring(i), expert)
         for _, p in ipairs(expert:parameters()) do
            average(p, n)
            placement.own(p, group)
         end
      end
   end
end

-- Tells the other ranks how many rows this rank will send to each of their experts. Returns how
-- many rows this rank will receive, as a table with a list for each sending rank, which has a
-- number for each expert of this rank.
local function exchange_counts(self, counts)
   local got = torch.empty_like(counts)
   torch.distributed.all_to_all_single(got, counts, {group = self.group})
   return got:view(-1, self.here):tolist()
end

local function sums(rows)
   local list = {}
   for r, row in ipairs(rows) do
      list[r] = 0
      for _, n in ipairs(row) do list[r] = list[r] + n end
   end
   return list
end

-- Returns the results of this rank's experts for rows that are sorted by the rank that sent them,
-- then by expert.
local function compute(self, rows, counts)
   local pieces, at = {}, 1
   for r, row in ipairs(counts) do
      pieces[r] = {}
      for e, n in ipairs(row) do
         pieces[r][e] = rows:narrow(1, at, n)
         at = at + n
      end
   end
   local first, out = self.group.group_rank * self.here, {}
   for e = 1, self.here do
      local inputs = {}
      for r = 1, #counts do inputs[r] = pieces[r][e] end
      -- an expert without rows runs as well, so that all ranks record the same graph
      local results = self.experts[tostring(first + e)](torch.cat(inputs))
      local from = 1
      for r = 1, #counts do
         out[(r - 1) * self.here + e] = results:narrow(1, from, counts[r][e])
         from = from + counts[r][e]
      end
   end
   return torch.cat(out)
end

---@param x Tensor  (..., width), of any number of positions on each rank
---@return Tensor  the results, of the same shape
function MoE:forward(x)
   local rows = x:reshape(-1, x:size(-1))
   local n, k, experts = rows:size(1), self.top_k, self.num_experts
   local scores = self.router(rows):softmax(-1)
   local weights, chosen = scores:topk(k, -1)
   weights = weights / weights:sum(-1, true)
   local flat = chosen:reshape(-1)
   local order = flat:argsort {stable = true}
   local counts = torch.zeros({experts}, {dtype = "int64", device = x.device})
   counts:index_add_(1, flat, torch.ones_like(flat))
   rawset(self, "aux_loss",
      (counts:to(scores.dtype) / math.max(1, n * k) * scores:mean(1)):sum() * experts)

   local positions = (order - 1):div(k, {rounding_mode = "floor"}) + 1
   local got = exchange_counts(self, counts)
   local send, receive = sums(counts:view(-1, self.here):tolist()), sums(got)
   local exchange = torch.distributed.nn.all_to_all_single
   local there = exchange(rows:index_select(1, positions), {
      input_split_sizes = send, output_split_sizes = receive, group = self.group,
   })
   local back = exchange(compute(self, there, got), {
      input_split_sizes = receive, output_split_sizes = send, group = self.group,
   })
   back = back * weights:reshape(-1):index_select(1, order):unsqueeze(2)
   return torch.zeros_like(rows):index_add(1, positions, back):view(x.shape)
end

return MoE
