-- Tests the sampling of graphs whose nodes and edges have types.

local torch = require "tlua"
local graphs = torch.graphs
local N = graphs.nn

local writes <const>, cites <const>, written <const> = {"author", "writes", "paper"},
   {"paper", "cites", "paper"}, {"paper", "written", "author"}

-- Returns a graph of 20 authors and 30 papers. The feature of each node is its number.
local function library()
   torch.manual_seed(3)
   local data = graphs.data.HeteroData()
   data.author.x = torch.arange(1, 21):float():view(-1, 1)
   data.paper.x = torch.arange(1, 31):float():view(-1, 1)
   data.paper.y = torch.arange(1, 31)
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

local function check_batch(data, batch)
   for _, name in ipairs {"author", "paper"} do
      local n_id = batch[name].n_id
      assert.equal(n_id:numel(), batch[name].num_nodes)
      assert.equal(n_id:numel(), n_id:unique():numel())
      assert.same(n_id:tolist(), batch[name].x:view(-1):long():tolist())
      assert.equal(n_id:numel(), torch.tensor(batch[name].num_sampled_nodes):sum():item())
   end
   for _, kind in ipairs {writes, cites, written} do
      local part, whole = batch[kind], data[kind].edge_index
      whole = whole:index_select(2, part.e_id)
      assert.same(whole[1]:tolist(), batch[kind[1]].n_id:index_select(1, part.edge_index[1]):tolist())
      assert.same(whole[2]:tolist(), batch[kind[3]].n_id:index_select(1, part.edge_index[2]):tolist())
      assert.equal(part.e_id:numel(), part.e_id:unique():numel())
   end
   assert.same(batch[writes].e_id:tolist(), batch[writes].edge_attr:tolist())
   assert.same(batch.paper.n_id:tolist(), batch.paper.y:tolist())
end

describe("NeighborLoader of a graph with types", function()
   for _, workers in ipairs {0, 2} do
      it(("samples edges of the graph around nodes of one type, with %d workers"):format(workers), function()
         local data = library()
         local loader = graphs.loader.NeighborLoader(data, {3, 2}, {input_nodes = "paper", batch_size = 8,
            num_workers = workers})
         local degree = graphs.utils.degree(data[writes].edge_index[2], 30)
         local seen = {}
         for batch in loader:iter() do
            check_batch(data, batch)
            local size = batch.paper.batch_size
            local counts = graphs.utils.degree(batch[writes].edge_index[2], batch.paper.num_nodes)
            for i = 1, size do
               local node = batch.paper.n_id[i]:item()
               assert.equal(node, batch.paper.input_id[i]:item())
               assert.equal(math.min(3, degree[node]:item()), counts[i]:item())
               seen[#seen + 1] = node
            end
            assert.equal(0, batch.author.num_sampled_nodes[1])
            assert.equal(0, batch[written].num_sampled_edges[1])
         end
         assert.same(torch.arange(1, 31):tolist(), seen)
      end)
   end

   it("gives the results of the whole graph with all neighbours", function()
      local data = library()
      torch.manual_seed(2)
      local function layer(size)
         return N.HeteroConv {author__writes__paper = N.SAGEConv({size, size}, 4),
            paper__cites__paper = N.SAGEConv({size, size}, 4), paper__written__author = N.SAGEConv({size, size}, 4)}
      end
      local first, second = layer(1), layer(4)
      local function run(graph)
         return second(first(graph.x_dict, graph.edge_index_dict), graph.edge_index_dict)
      end
      local whole = run(data)
      for _, name in ipairs {"author", "paper"} do
         local loader = graphs.loader.NeighborLoader(data, {-1, -1}, {batch_size = 7,
            input_nodes = {name, torch.arange(3, 15)}})
         local count = 0
         for batch in loader:iter() do
            check_batch(data, batch)
            local part = run(batch)[name]:narrow(1, 1, batch[name].batch_size)
            local expected = whole[name]:index_select(1, batch[name].input_id)
            assert.is_true(torch.allclose(part, expected, {atol = 1e-5}))
            count = count + batch[name].batch_size
         end
         assert.equal(12, count)
      end
   end)

   it("takes a number of neighbours for each type of edges", function()
      local data = library()
      local loader = graphs.loader.NeighborLoader(data, {author__writes__paper = {2}, paper__cites__paper = {0},
         paper__written__author = {1}}, {input_nodes = "paper", batch_size = 30})
      for batch in loader:iter() do
         check_batch(data, batch)
         assert.equal(0, batch[cites].e_id:numel())
         assert.equal(0, batch[written].e_id:numel())
         assert.is_true(batch[writes].e_id:numel() > 30)
      end
   end)

   it("refuses types that do not exist", function()
      local data = library()
      local function refuses(text, ...)
         local given = table.pack(...)
         assert.raises(text, function() graphs.loader.NeighborLoader(table.unpack(given, 1, given.n)) end)
      end
      refuses("input_nodes: expected the name of a node type, or a list of the name and the seeds; there are "
         .. "author, paper", data, {2})
      refuses("input_nodes: expected the name of a node type", data, {2}, {input_nodes = "book"})
      refuses("there is no edge type paper__cites__book", data, {author__writes__paper = {1},
         paper__cites__paper = {1}, paper__written__author = {1}, paper__cites__book = {1}}, {input_nodes = "paper"})
      refuses("num_neighbors: expected a list for paper__cites__paper", data, {author__writes__paper = {1}},
         {input_nodes = "paper"})
      refuses("num_neighbors: expected a list of integers, one for each hop", data, "all", {input_nodes = "paper"})
      refuses("num_neighbors: expected at least 0, or -1 for all, got -2", data, {-2}, {input_nodes = "paper"})
      refuses("input_nodes", data, {2}, {input_nodes = {"paper", torch.tensor {31}}})
   end)
end)
