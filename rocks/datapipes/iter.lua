-- iter.lua - torch.data.datapipes.iter: the classes of iterable pipes. Each file is loaded when one
-- of its classes is first used.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.datapipes", {
   sources = "IterableWrapper FileLister FileOpener StreamReader",
   callables = "Mapper Collator Filter",
   selecting = "Shuffler Sampler ShardingFilter SHARDING_PRIORITIES",
   grouping = "Batcher UnBatcher Grouper",
   combining = "Concater Multiplexer Zipper",
   branches = "Forker Demultiplexer",
}))
