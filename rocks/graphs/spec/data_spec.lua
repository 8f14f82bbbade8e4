-- Tests graphs, batches of graphs, and the loader of batches.

local torch = require "tlua"
local device = require "spec.support.device"

local graphs = torch.graphs
local Data, Batch = graphs.data.Data, graphs.data.Batch

local function triangle()
   return Data {x = torch.arange(6):float():view(3, 2), edge_index = torch.tensor {{1, 2, 3}, {2, 3, 1}}}
end

local function pair()
   return Data {x = torch.ones(2, 2), edge_index = torch.tensor {{1, 2}, {2, 1}}}
end

describe("torch.graphs.data.Data", function()
   it("has attributes by position and by name, in the order of PyTorch Geometric's", function()
      local data = Data(torch.ones(3, 2), torch.tensor {{1, 2}, {2, 3}}, {y = torch.tensor {1, 2, 1}, z = 5})
      assert.same({"x", "edge_index", "y", "z"}, data:keys())
      assert.equal("Data(x=[3, 2], edge_index=[2, 2], y=[3], z=5)", tostring(data))
      data.train_mask = torch.tensor {true, false, true}
      assert.equal(5, data.z)
      data.z = nil
      assert.same({"x", "edge_index", "y", "train_mask"}, data:keys())
      assert.is_nil(data.edge_attr)
      assert.is_false(data:has "z")
      assert.equal(7, data:get("z", 7))
   end)

   it("computes counts", function()
      local data = triangle()
      data.y = torch.tensor {1, 3, 2}
      data.edge_attr = torch.ones(3, 4)
      assert.same({3, 3, 2, 2, 4, 3}, {data.num_nodes, data.num_edges, data.num_features, data.num_node_features,
         data.num_edge_features, data.num_classes})
      assert.equal(3, Data {edge_index = torch.tensor {{1}, {3}}}.num_nodes)
      assert.equal(9, Data {edge_index = torch.tensor {{1}, {3}}, num_nodes = 9}.num_nodes)
      assert.is_nil(Data().num_nodes)
   end)

   it("knows its structure", function()
      local data = triangle()
      assert.is_true(data:is_directed())
      assert.is_true(pair():is_undirected())
      assert.is_false(data:has_self_loops())
      assert.is_false(data:has_isolated_nodes())
      assert.is_true(data:is_coalesced())
      data.edge_index = torch.tensor {{3, 1, 3}, {1, 2, 1}}
      assert.is_false(data:is_coalesced())
      assert.same({{1, 3}, {2, 1}}, data:coalesce().edge_index:tolist())
   end)

   it("returns subgraphs with their attributes", function()
      local data = triangle()
      data.edge_attr = torch.tensor {10.0, 20.0, 30.0}
      data.train_mask = torch.tensor {true, false, true}
      local part = data:subgraph(torch.tensor {2, 3})
      assert.same({{1}, {2}}, part.edge_index:tolist())
      assert.same({20}, part.edge_attr:tolist())
      assert.same({{2, 3}, {4, 5}}, part.x:tolist())
      assert.same({false, true}, part.train_mask:tolist())
      local by_mask = data:subgraph(torch.tensor {false, true, true})
      assert.same(part.x:tolist(), by_mask.x:tolist())
      local few = data:edge_subgraph(torch.tensor {3})
      assert.same({{3}, {1}}, few.edge_index:tolist())
      assert.same({30}, few.edge_attr:tolist())
      assert.equal(3, few.num_nodes)
   end)

   it("copies, casts and maps its tensors", function()
      local data = triangle()
      data.list = {torch.ones(1)}
      local copy, deep = data:copy(), data:clone()
      copy.x:fill_(9)
      assert.equal(9, data.x[1][1]:item())
      assert.equal(0, deep.x[1][1]:item())
      data:apply(function(t) return t + 1 end)
      assert.equal(2, data.list[1]:item())
      assert.equal("cpu", tostring(data:to("cpu").x.device))
      assert.equal("float64", deep:apply(function(t) return t:double() end).x.dtype)
   end)

   it("validates edge_index and attributes of edges", function()
      local data = triangle()
      assert.is_true(data:validate())
      data.edge_index = torch.tensor {{1, 4}, {2, 1}}
      assert.raises("graphs.data.Data: edge_index: expected positions from 1 to 3, the number of nodes, got 4",
         function() data:validate() end)
      local valid, message = data:validate(false)
      assert.is_false(valid)
      assert.matches("got 4", message)
      data.edge_index = torch.ones(2, 2)
      assert.raises("graphs.data.Data: edge_index: expected an int64 tensor of shape (2, edges), got a float32 tensor",
         function() data:validate() end)
   end)

   it("raises errors that name the mistake", function()
      assert.raises("graphs.data.Data: no attribute 'edgeindex'; there are: x, edge_index",
         function() return triangle().edgeindex end)
      assert.raises("graphs.data.Data: x: expected a tensor, got 3", function() Data(3) end)
      assert.raises("graphs.data.Data: num_edges cannot be set", function() triangle().num_edges = 3 end)
      assert.raises("graphs.data.Data: x: given twice", function() Data(torch.ones(1), {x = torch.ones(1)}) end)
      assert.raises("graphs.data.Data:is_undirected: expected edge_index, the graph has none",
         function() Data {x = torch.ones(1)}:is_undirected() end)
   end)
end)

describe("torch.graphs.data.Batch", function()
   it("joins graphs as blocks on the diagonal, and separates them again", function()
      local list = {triangle(), pair(), triangle()}
      for i, data in ipairs(list) do
         data.y = torch.tensor {i}
         data.name = "graph " .. i
         data.weight = i / 2
      end
      local batch = Batch.from_data_list(list)
      assert.equal(3, batch.num_graphs)
      assert.equal(8, batch.num_nodes)
      assert.same({1, 1, 1, 2, 2, 3, 3, 3}, batch.batch:tolist())
      assert.same({1, 4, 6, 9}, batch.ptr:tolist())
      assert.same({{1, 2, 3, 4, 5, 6, 7, 8}, {2, 3, 1, 5, 4, 7, 8, 6}}, batch.edge_index:tolist())
      assert.same({1, 2, 3}, batch.y:tolist())
      assert.same({"graph 1", "graph 2", "graph 3"}, batch.name)
      assert.same({0.5, 1, 1.5}, batch.weight:tolist())
      local back = batch:to_data_list()
      assert.equal(3, #back)
      for i, data in ipairs(back) do
         assert.same(list[i]:keys(), data:keys())
         assert.same(list[i].edge_index:tolist(), data.edge_index:tolist())
         assert.same(list[i].x:tolist(), data.x:tolist())
         assert.same({i, "graph " .. i, i / 2}, {data.y:item(), data.name, data.weight})
      end
      assert.same(list[3].x:tolist(), batch:get_example(-1).x:tolist())
      assert.equal("DataBatch(x=[8, 2], edge_index=[2, 8], y=[3], name=[3], weight=[3], batch=[8], ptr=[4])",
         tostring(batch))
   end)

   it("keeps graphs without edges and without nodes", function()
      local none = torch.zeros(2, 0, {dtype = "int64"})
      local batch = Batch.from_data_list {Data {x = torch.ones(1, 2), edge_index = none}, pair(),
         Data {x = torch.zeros(0, 2), edge_index = none}}
      assert.same({1, 2, 2}, batch.batch:tolist())
      assert.same({1, 2, 4, 4}, batch.ptr:tolist())
      assert.same({{2, 3}, {3, 2}}, batch.edge_index:tolist())
      assert.equal(3, batch.num_graphs)
      assert.equal(0, batch:get_example(3).num_nodes)
   end)

   it("makes batch vectors for follow_batch, and leaves out exclude_keys", function()
      local batch = Batch.from_data_list({triangle(), pair()}, {follow_batch = {"edge_index"}, exclude_keys = {"x"}})
      assert.same({1, 1, 1, 2, 2}, batch.edge_index_batch:tolist())
      assert.same({1, 4, 6}, batch.edge_index_ptr:tolist())
      assert.is_nil(batch.x)
   end)

   it("joins by the overridden methods of classes derived from Data", function()
      local Pair = torch.class("Pair", Data)
      function Pair:__inc__(key, value)
         if key == "target_index" then return 100 end
         return Data.__inc__(self, key, value)
      end
      function Pair:__cat_dim__(key, value)
         if key == "whole" then return nil end
         return Data.__cat_dim__(self, key, value)
      end
      local function one()
         return Pair {x = torch.ones(2, 1), target_index = torch.tensor {1}, whole = torch.ones(3)}
      end
      local batch = Batch.from_data_list {one(), one()}
      assert.same({1, 101}, batch.target_index:tolist())
      assert.same({2, 3}, {table.unpack(batch.whole.shape)})
      local second = batch:get_example(2)
      assert.equal("Pair", torch.type(second))
      assert.same({1}, second.target_index:tolist())
      assert.same({3}, {table.unpack(second.whole.shape)})
   end)

   it("names the attribute that cannot be joined", function()
      assert.raises("graphs.data.Batch.from_data_list: data_list: expected a list of graphs, got a table",
         function() Batch.from_data_list {} end)
      local other = triangle()
      other.y = torch.ones(1)
      assert.raises("expected the same attributes in each graph; graph 2 has y, graph 1 lacks it",
         function() Batch.from_data_list {triangle(), other} end)
      local wide = triangle()
      wide.x = torch.ones(3, 5)
      assert.raises("x: expected shapes that can be joined in dimension 1, on one device, got a float32 tensor of "
         .. "shape (3, 2) of graph 1 and a float32 tensor of shape (3, 5) of graph 2",
         function() Batch.from_data_list {triangle(), wide} end)
      assert.raises("graphs.data.Batch:get_example: i: expected a graph from 1 to 1, got 2",
         function() Batch.from_data_list({triangle()}):get_example(2) end)
      assert.raises("graphs.data.Batch.from_data_list: data_list: expected a list of graphs.data.Data, got nil",
         function() Batch.from_data_list {triangle(), nil, triangle()} end)
   end)

   it("take the attributes of another graph, and lists of nodes as whole floats", function()
      local data = triangle():update(graphs.data.Data {label = torch.ones(2)})
      assert.same({1, 1}, data.label:tolist())
      assert.equal(2, data:subgraph({1.0, 2.0}).num_nodes)
   end)

   it("name wrong arguments of their methods", function()
      local data = triangle()
      local edges = data.num_edges
      for message, fn in pairs {
         ["graphs.data.Data:subgraph: subset[2]: expected an integer, got 1.5"] = function() data:subgraph {1, 1.5} end,
         [("edge_subgraph: subset: expected positions from 1 to %d, the number of edges, got 99"):format(edges)] =
            function() data:edge_subgraph {99} end,
         ["graphs.data.Data:edge_subgraph: subset: expected a list of edges, an int64 tensor, or a mask, got nil"] =
            function() data:edge_subgraph() end,
         ["graphs.data.Data:update: attributes: expected a table of attributes by name, got 3"] =
            function() data:update(3) end,
         ["graphs.data.Data:update: attributes: expected strings as names, got 1"] = function() data:update {4} end,
         ["graphs.data.Data:apply: fn: expected a function, got nil"] = function() data:apply() end,
         ["graphs.data.HeteroData: key: expected the name of a node type, or a list"] = function()
            local _ = graphs.data.HeteroData()[{"a", 1, "b"}]
         end,
         ["graphs.transforms.RandomNodeSplit: data: expected a graph, got 3"] = function()
            graphs.transforms.RandomNodeSplit()(3)
         end,
         ["graphs.transforms.RandomNodeSplit: num_val: expected a number of at least 0, got inf"] = function()
            graphs.transforms.RandomNodeSplit {num_val = math.huge}(data)
         end,
         ["graphs.transforms.RandomLinkSplit: data: expected a graph with edge_index, got nil"] = function()
            graphs.transforms.RandomLinkSplit()()
         end,
         ["graphs.transforms.RandomLinkSplit: neg_sampling_ratio: expected a number of at least 0, got -1"] = function()
            graphs.transforms.RandomLinkSplit {neg_sampling_ratio = -1}
         end,
         ["graphs.utils.negative_sampling: num_neg_samples: expected a number of at least 0, got inf"] = function()
            graphs.utils.negative_sampling(data.edge_index, {num_neg_samples = math.huge})
         end,
      } do
         assert.raises(message, fn)
      end
   end)
end)

describe("torch.graphs.loader.DataLoader", function()
   for _, workers in ipairs {0, 2} do
      it(("makes batches with %d workers"):format(workers), function()
         if device.name and workers > 0 then pending "only tensors of the CPU travel to workers" end
         local list = {}
         for i = 1, 5 do
            list[i] = i % 2 == 0 and pair() or triangle()
            list[i].y = torch.tensor {i}
         end
         local loader = graphs.loader.DataLoader(list, {batch_size = 2, num_workers = workers})
         local labels, sizes = {}, {}
         for batch in loader:iter() do
            assert.is_true(torch.isinstance(batch, Batch))
            sizes[#sizes + 1] = batch.num_nodes
            for _, data in ipairs(batch:to_data_list()) do labels[#labels + 1] = data.y:item() end
         end
         assert.same({1, 2, 3, 4, 5}, labels)
         assert.same({5, 5, 3}, sizes)
         assert.equal(3, #loader)
      end)
   end
end)
