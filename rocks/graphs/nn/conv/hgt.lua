-- hgt.lua - HGTConv, a transformer layer for graphs whose nodes and edges have types.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.graphs.checks"
local Linear = require "tlua.graphs.nn.Linear"
local inits = require "tlua.graphs.nn.inits"
local scatter = require "tlua.graphs.utils.scatter"
local nn = torch.nn

local M = {}

local NAME <const> = "graphs.nn.HGTConv"

-- Holds one linear map for each node type. Its parameters have the same names as in the state dicts
-- of PyTorch Geometric.
local Maps = class.class("graphs.nn.Maps", nn.Module)

function Maps:__init(types, sizes, out)
   nn.Module.__init(self)
   self.lins = nn.ModuleDict {}
   for _, name in ipairs(types) do self.lins:set(name, Linear(sizes[name], out)) end
end

-- Holds one square matrix for each head and each edge type. The matrices of one head follow one
-- another.
local Relations = class.class("graphs.nn.Relations", nn.Module)

function Relations:__init(heads, types, size)
   nn.Module.__init(self)
   rawset(self, "_shape", {heads, types, size, size})
   self.weight = nn.Parameter(torch.empty(heads * types, size, size))
end

function Relations:reset_parameters() inits.uniform(self._shape[3], self.weight) end

-- Multiplies the rows (nodes, heads, size) of each head by the head's matrix for an edge type.
function Relations:forward(x, type)
   local weight = self.weight:view(self._shape):select(2, type)
   return torch.bmm(x:transpose(1, 2), weight):transpose(1, 2)
end

local signature = args.signature [[graphs.nn.HGTConv(in_channels: any, out_channels: count,
   metadata: table, heads: count = 1)]]

--- The heterogeneous graph transformer (Hu et al., 2020). Nodes attend to neighbours of all types,
--- and each node type and edge type has its own linear maps. `metadata` lists the node types and
--- the edge types, as in {data:metadata()}.
---
---     local edges = {"author", "writes", "paper"}
---     local conv = torch.graphs.nn.HGTConv({author = 3, paper = 4}, 6,
---        {{"author", "paper"}, {edges}}, {heads = 2})
---     local x = {author = torch.ones(2, 3), paper = torch.ones(5, 4)}
---     local out = conv(x, {author__writes__paper = torch.tensor {{1, 2}, {5, 5}}})
---     print(out.paper.shape, out.author)
---     --> torch.Size([5, 6])	nil
---@class graphs.nn.HGTConv: nn.Module
---@field heads integer  the number of heads
---@field kqv_lin nn.Module  the maps to keys, queries and values
---@field out_lin nn.Module  the maps of results
---@overload fun(in_channels: integer|table<string, integer>, out_channels: integer,
--- metadata: table[], options?: table): graphs.nn.HGTConv
local HGTConv = class.class(NAME, nn.Module)
M.HGTConv = HGTConv

-- Returns the list of node types, and a table that maps the name of each edge type to its number
-- and the node types at its ends.
local function read_metadata(metadata)
   local types, kinds = metadata[1], metadata[2]
   if type(types) ~= "table" or type(kinds) ~= "table" or #types == 0 or #kinds == 0 then
      args.refuse(NAME, "metadata", "the list of node types and that of edge types, as in "
         .. "{data:metadata()}", metadata)
   end
   local known, edges = {}, {}
   for _, name in ipairs(types) do known[name] = true end
   for i, kind in ipairs(kinds) do
      if type(kind) == "string" then kind = {kind:match "^(.-)__(.-)__(.*)$"} end
      if type(kind) ~= "table" or #kind ~= 3 or not known[kind[1]] or not known[kind[3]] then
         args.refuse(NAME, ("metadata[2][%d]"):format(i), "a list of source, relation and target, "
            .. "both ends among " .. table.concat(types, ", "), metadata[2][i])
      end
      edges[i] = {name = table.concat(kind, "__"), source = kind[1], target = kind[3]}
   end
   return types, edges
end

local function sizes_of(given, types)
   local sizes = {}
   for _, name in ipairs(types) do
      local size = given
      if type(given) == "table" then size = given[name] end
      if math.type(size) ~= "integer" or size < 1 then
         args.refuse(NAME, "in_channels", "a number of channels, or one for each node type; "
            .. "there is none for " .. name, given)
      end
      sizes[name] = size
   end
   return sizes
end

---@param in_channels integer|table<string, integer>  for all types of nodes, or for each
---@param out_channels integer  a multiple of heads
---@param metadata table[]  the types of nodes, and the types of edges
---@param options? {heads: integer}
function HGTConv:__init(...)
   nn.Module.__init(self)
   local a = signature(...)
   if a.heads < 1 or a.out_channels % a.heads ~= 0 then
      args.refuse(NAME, "heads", ("a divisor of out_channels (%d)"):format(a.out_channels), a.heads)
   end
   local types, edges = read_metadata(a.metadata)
   rawset(self, "_types", types)
   rawset(self, "_edges", edges)
   self.in_channels, self.out_channels, self.heads = a.in_channels, a.out_channels, a.heads
   local sizes, same = sizes_of(a.in_channels, types), {}
   for _, name in ipairs(types) do same[name] = a.out_channels end
   self.kqv_lin = Maps(types, sizes, 3 * a.out_channels)
   self.out_lin = Maps(types, same, a.out_channels)
   local size = a.out_channels // a.heads
   self.k_rel = Relations(a.heads, #edges, size)
   self.v_rel = Relations(a.heads, #edges, size)
   local skip, p_rel = {}, {}
   for _, name in ipairs(types) do skip[name] = nn.Parameter(torch.ones(1)) end
   for _, edge in ipairs(edges) do p_rel[edge.name] = nn.Parameter(torch.ones(1, a.heads)) end
   self.skip, self.p_rel = nn.ParameterDict(skip), nn.ParameterDict(p_rel)
   self:reset_parameters()
end

--- Sets the parameters to new initial values.
function HGTConv:reset_parameters()
   for _, name in ipairs {"kqv_lin", "out_lin", "k_rel", "v_rel"} do inits.reset(self[name]) end
   for _, name in ipairs {"skip", "p_rel"} do
      for _, parameter in ipairs(self[name]:values()) do inits.ones(parameter) end
   end
end

-- Returns the keys, queries and values of each node type, (nodes, heads, size).
local function split(self, x_dict)
   local parts, size = {}, self.out_channels // self.heads
   for name, x in pairs(x_dict) do
      if not torch.is_tensor(x) or x:dim() ~= 2 then
         args.refuse(NAME .. ".forward", ("x_dict[%q]"):format(name),
            "a tensor of shape (nodes, channels)", x)
      end
      local lin = self.kqv_lin.lins[name]
      if not lin then
         torch.raise(("%s.forward: x_dict: there is no node type %s; there are %s"):format(NAME,
            tostring(name), table.concat(self._types, ", ")))
      end
      local rows = lin(x):view(-1, 3, self.heads, size)
      parts[name] = {k = rows:select(2, 1), q = rows:select(2, 2), v = rows:select(2, 3),
         n = x:size(1)}
   end
   return parts
end

-- Computes the attention scores and the values along the edges of one type, and appends them to the
-- lists in `found` for the target type.
local function attend(self, number, edge, edge_index, parts, found)
   local title = ("%s.forward: edge_index_dict: %s"):format(NAME, edge.name)
   local source, target = parts[edge.source], parts[edge.target]
   for _, which in ipairs {edge.source, edge.target} do
      if not parts[which] then
         torch.raise(("%s: x_dict has no features of %s"):format(title, which))
      end
   end
   checks.edges(title, edge_index)
   local from, to = edge_index[1], edge_index[2]
   checks.range(title, "edge_index[1]", from, source.n)
   checks.range(title, "edge_index[2]", to, target.n)
   local size = self.out_channels // self.heads
   local key = self.k_rel(source.k, number):index_select(1, from)
   local alpha = (target.q:index_select(1, to) * key):sum(-1) * self.p_rel[edge.name]
   local lists = found[edge.target]
   lists.alpha[#lists.alpha + 1] = alpha / math.sqrt(size)
   lists.to[#lists.to + 1] = to
   lists.values[#lists.values + 1] = self.v_rel(source.v, number):index_select(1, from)
end

-- Returns, for each node of a type, the sum of its neighbours' values, weighted by the attention:
-- (nodes, out_channels).
local function aggregate(self, lists, part)
   if #lists.to == 0 then return part.q:new_zeros(part.n, self.out_channels) end
   local to = torch.cat(lists.to)
   local alpha = scatter.group_softmax(torch.cat(lists.alpha), to, part.n, 1)
   local rows = torch.cat(lists.values) * alpha:unsqueeze(-1)
   return scatter.reduce(rows, to, 1, part.n, "sum"):reshape(part.n, self.out_channels)
end

local forward = args.signature [[graphs.nn.HGTConv.forward(x_dict: table, edge_index_dict: table)]]

---@param x_dict table<string, Tensor>  the features of each type of nodes
---@param edge_index_dict table<string, Tensor>  the edges of each type, by names such as
--- author__writes__paper
---@return table<string, Tensor>  the results of the types of nodes at which some type of edges ends
function HGTConv:forward(...)
   local a = forward(...)
   local parts, found, known = split(self, a.x_dict), {}, {}
   for _, edge in ipairs(self._edges) do
      found[edge.target] = found[edge.target] or {alpha = {}, to = {}, values = {}}
   end
   for number, edge in ipairs(self._edges) do
      known[edge.name] = true
      local edge_index = a.edge_index_dict[edge.name]
      if edge_index ~= nil then attend(self, number, edge, edge_index, parts, found) end
   end
   for name in pairs(a.edge_index_dict) do
      if not known[name] then
         torch.raise(("%s.forward: edge_index_dict: there is no edge type %s"):format(NAME,
            tostring(name)))
      end
   end
   local results = {}
   for target, lists in pairs(found) do
      local part, x = parts[target], a.x_dict[target]
      if part then
         local out = nn.functional.gelu(aggregate(self, lists, part))
         out = self.out_lin.lins[target](out)
         if x:size(2) == self.out_channels then
            local share = self.skip[target]:sigmoid()
            out = share * out + (1 - share) * x
         end
         results[target] = out
      end
   end
   return results
end

function HGTConv:extra_repr()
   return ("%d, heads=%d"):format(self.out_channels, self.heads)
end

return M
