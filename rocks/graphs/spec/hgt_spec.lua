-- Compares HGTConv with PyTorch Geometric's results, which fixtures/hgt.py has recorded, and tests HGTLoader.

local torch = require "tlua"
local device = require "spec.support.device"
local graphs = torch.graphs
local N = graphs.nn

local types <const> = {"author", "paper", "venue"}
local kinds <const> = {{"author", "writes", "paper"}, {"paper", "cites", "paper"}, {"paper", "written", "author"},
   {"venue", "shows", "paper"}}

describe("HGTConv", function()
   local recorded = device.moved(torch.load "rocks/graphs/spec/fixtures/hgt.safetensors")

   -- Returns the recorded tensors whose names begin with a prefix. The keys are the names without the prefix.
   local function part(prefix)
      local found = {}
      for name, value in pairs(recorded) do
         if name:sub(1, #prefix) == prefix then found[name:sub(#prefix + 1)] = value end
      end
      return found
   end

   for case, make in pairs {
      ["sizes"] = function() return N.HGTConv({author = 3, paper = 6, venue = 2}, 6, {types, kinds}, {heads = 2}) end,
      ["one head"] = function() return N.HGTConv(4, 5, {types, kinds}) end,
      ["few edges"] = function() return N.HGTConv(4, 4, {types, kinds}, 4) end,
   } do
      it("has PyTorch Geometric's results and gradients: " .. case, function()
         local conv = device.moved(make())
         conv:load_state_dict(part(case .. "/state/"))
         local x, edges = part(case .. "/x/"), {}
         for _, value in pairs(x) do value:requires_grad_() end
         for name, value in pairs(part "edges/") do
            if case ~= "few edges" or name == "paper__cites__paper" then edges[name] = value + 1 end
         end
         local out, expected = conv(x, edges), part(case .. "/out/")
         local names, total = {}, 0
         for name in pairs(out) do names[#names + 1] = name end
         table.sort(names)
         assert.same({"author", "paper"}, names)
         for _, name in ipairs(names) do
            assert.close(expected[name], out[name], 1e-5)
            local weights = torch.linspace(-1, 1, out[name]:numel()):to(device.name or "cpu")
            total = total + (out[name] * weights:view(out[name].shape)):sum()
         end
         total:backward()
         for name, gradient in pairs(part(case .. "/x_grad/")) do
            assert.close(gradient, x[name].grad or torch.zeros_like(x[name]), 1e-5)
         end
         local gradients, count = part(case .. "/grad/"), 0
         for name, parameter in conv:named_parameters() do
            if gradients[name] then
               count = count + 1
               assert.close(gradients[name], parameter.grad or torch.zeros_like(parameter), 1e-5)
            end
         end
         assert.is_true(count >= 12)
      end)
   end

   it("names wrong arguments", function()
      local x = {author = torch.ones(2, 4), paper = torch.ones(3, 4)}
      local conv = N.HGTConv(4, 4, {types, kinds})
      local edges = torch.tensor {{1, 2}, {1, 3}}
      for _, row in ipairs {
         {"heads: expected a divisor of out_channels (4), got 3", function() N.HGTConv(4, 4, {types, kinds}, 3) end},
         {"in_channels: expected a number of channels, or one for each node type; there is none for venue",
            function() N.HGTConv({author = 1, paper = 2}, 4, {types, kinds}) end},
         {"metadata[2][1]: expected a list of source, relation and target, both ends among a",
            function() N.HGTConv(4, 4, {{"a"}, {{"a", "to", "b"}}}) end},
         {"metadata: expected the list of node types", function() N.HGTConv(4, 4, {"a", "b"}) end},
         {"edge_index_dict: there is no edge type paper__likes__paper",
            function() conv(x, {paper__likes__paper = edges}) end},
         {"x_dict has no features of venue", function() conv(x, {venue__shows__paper = edges}) end},
         {"author__writes__paper: edge_index[2]: expected positions from 1 to 3, the number of nodes, got 4",
            function() conv(x, {author__writes__paper = edges + torch.tensor {{0}, {1}}}) end},
         {"x_dict: there is no node type book", function() conv({book = torch.ones(1, 4)}, {}) end},
      } do
         assert.raises(row[1], row[2])
      end
   end)
end)

describe("HGTLoader", function()
   local writes <const>, cites <const>, written <const> = kinds[1], kinds[2], kinds[3]

   local function library()
      torch.manual_seed(3)
      local data = graphs.data.HeteroData()
      data.author.x = torch.arange(1, 21):float():view(-1, 1)
      data.paper.x = torch.arange(1, 31):float():view(-1, 1)
      local function edges(from, to, count)
         local places = torch.randperm(from * to):narrow(1, 1, count) - 1
         return torch.stack {places // to + 1, places % to + 1}
      end
      data[writes].edge_index = edges(20, 30, 70)
      data[writes].edge_attr = torch.arange(1, 71)
      data[cites].edge_index = edges(30, 30, 90)
      data[written].edge_index = data[writes].edge_index:flip(1)
      return data
   end

   -- Returns the set of pairs of nodes that are connected by edges. A node has its number in the whole graph.
   local function pairs_of(edge_index, sources, targets)
      local set = {}
      for i = 1, edge_index:size(2) do
         local from, to = edge_index[1][i]:item(), edge_index[2][i]:item()
         if sources then from, to = sources[from], targets[to] end
         set[from .. " " .. to] = true
      end
      return set
   end

   for _, workers in ipairs {0, 2} do
      it(("gives all edges among sampled nodes, with %d workers"):format(workers), function()
         local data = library()
         local loader = graphs.loader.HGTLoader(data, {author = {3, 2}, paper = {4, 0}}, {input_nodes = "paper",
            batch_size = 8, num_workers = workers})
         local seen = {}
         for batch in loader:iter() do
            local ids = {author = batch.author.n_id:tolist(), paper = batch.paper.n_id:tolist()}
            assert.same({0, 3, 2}, batch.author.num_sampled_nodes)
            assert.same({batch.paper.batch_size, 4, 0}, batch.paper.num_sampled_nodes)
            table.move(ids.paper, 1, batch.paper.batch_size, #seen + 1, seen)
            local inside = {author = {}, paper = {}}
            for name, list in pairs(ids) do
               for _, id in ipairs(list) do
                  assert.is_nil(inside[name][id])
                  inside[name][id] = true
               end
               assert.same(list, batch[name].x:view(-1):long():tolist())
            end
            for _, kind in ipairs {writes, cites, written} do
               local expected = {}
               for pair in pairs(pairs_of(data[kind].edge_index)) do
                  local from, to = pair:match "(%d+) (%d+)"
                  if inside[kind[1]][tonumber(from)] and inside[kind[3]][tonumber(to)] then expected[pair] = true end
               end
               assert.same(expected, pairs_of(batch[kind].edge_index, ids[kind[1]], ids[kind[3]]))
            end
            assert.same(batch[writes].e_id:tolist(), batch[writes].edge_attr:tolist())
         end
         assert.same(torch.arange(1, 31):tolist(), seen)
      end)
   end

   it("draws by the squares of the sums of 1 / degree", function()
      local data = graphs.data.HeteroData()
      data.a.x, data.b.x = torch.ones(2, 1), torch.ones(4, 1)
      -- Target 1 has the sources 1 and 2, and target 2 has the source 1. So the scores of the sources are 1/2 + 1 and
      -- 1/2.
      data[{"b", "to", "a"}].edge_index = torch.tensor {{1, 2, 1}, {1, 1, 2}}
      local loader = graphs.loader.HGTLoader(data, {1}, {input_nodes = "a", batch_size = 2})
      torch.manual_seed(4)
      local counts, n <const> = {0, 0, 0, 0}, 2000
      for _ = 1, n do
         for batch in loader:iter() do
            local id = batch.b.n_id:item()
            counts[id] = counts[id] + 1
         end
      end
      -- The first source is drawn with the probability 1.5^2 / (1.5^2 + 0.5^2) = 0.9. Five standard deviations of its
      -- share are 0.034.
      assert.near(0.9, counts[1] / n, 0.034)
      assert.equal(n, counts[1] + counts[2])
   end)

   it("names wrong arguments", function()
      local data = library()
      local Loader = graphs.loader.HGTLoader
      for _, row in ipairs {
         {"data: expected a graphs.data.HeteroData",
            function() Loader(graphs.data.Data(), {1}, {input_nodes = "a"}) end},
         {"num_samples: expected a list of integers of at least 0, one for each hop",
            function() Loader(data, {-1}, {input_nodes = "paper"}) end},
         {"num_samples.paper: expected a list of integers",
            function() Loader(data, {author = {1}}, {input_nodes = "paper"}) end},
         {"num_samples: there is no node type book",
            function() Loader(data, {author = {1}, paper = {1}, book = {1}}, {input_nodes = "paper"}) end},
         {"input_nodes: expected the name of a node type", function() Loader(data, {1}, {input_nodes = "book"}) end},
      } do
         assert.raises(row[1], row[2])
      end
   end)
end)
