-- DataLoader.lua - a loader whose batches of graphs are instances of Batch.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Batch = require "tlua.graphs.data.Batch"

--- Makes batches of graphs: a torch.data.DataLoader whose batches are instances of
--- torch.graphs.data.Batch. It takes all options of torch.data.DataLoader.
---
---     local D = torch.graphs.data
---     local edges = torch.tensor {{1}, {2}}
---     local one = D.Data {x = torch.ones(2, 1), edge_index = edges}
---     local DataLoader = torch.graphs.loader.DataLoader
---     for batch in DataLoader({one, one, one}, {batch_size = 2}):iter() do
---        print(batch.num_graphs, batch.num_nodes)
---     end
---     --> 2	4
---     --> 1	2
---@class graphs.loader.DataLoader: data.DataLoader
---@overload fun(dataset: any, options?: table): graphs.loader.DataLoader
local DataLoader, parent = class.class("graphs.loader.DataLoader", torch.data.DataLoader)

local names <const> = {}
for name in ([[batch_size shuffle sampler batch_sampler num_workers pin_memory drop_last timeout
   worker_init_fn generator prefetch_factor persistent_workers pin_memory_device in_order
   follow_batch exclude_keys]]):gmatch "%S+" do names[#names + 1] = name end

---@param dataset data.Dataset|graphs.data.Data[]
---@param options? {batch_size: integer, shuffle: boolean, sampler: any, batch_sampler: any,
--- num_workers: integer, pin_memory: boolean, drop_last: boolean, timeout: number, worker_init_fn:
--- function, generator: torch.Generator, prefetch_factor: integer, persistent_workers: boolean,
--- pin_memory_device: string, in_order: boolean, follow_batch: string[], exclude_keys: string[]}
--- the options of torch.data.DataLoader; follow_batch: attributes that get batch vectors of their
--- own; exclude_keys: attributes that are left out
function DataLoader:__init(dataset, options)
   args.check_options("graphs.loader.DataLoader", options, table.unpack(names))
   local own = {}
   for name, value in pairs(options or {}) do own[name] = value end
   local follow, exclude = own.follow_batch, own.exclude_keys
   own.follow_batch, own.exclude_keys = nil, nil
   own.collate_fn = function(items)
      local list = {}
      for i, item in ipairs(items) do
         list[i] = getmetatable(item) == nil and #item > 0 and item[1] or item
      end
      return Batch.from_data_list(list, follow, exclude)
   end
   parent.__init(self, dataset, own)
end

return DataLoader
