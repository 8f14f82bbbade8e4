-- version.lua - torch.version: the library's version, and those of what it uses.

local torch = require "tlua"

local fields = {}

function fields.__version__() return torch.__version__ end
function fields.debug() return false end

-- CUDA's as "12.4"; nil where there is no device that can be used.
function fields.cuda()
   if not torch.cuda.is_available() then return nil end
   local version = torch.cuda._library_version "cuda"
   return version and ("%d.%d"):format(version // 1000, version % 1000 // 10)
end

function fields.hip() return nil end
function fields.xpu() return nil end
function fields.git_version() return nil end

return setmetatable({}, {
   names = fields,
   __index = function(_, name)
      local field = fields[name]
      if field then return field() end
      if type(name) == "string" and name:find "^__%a+$" then return nil end
      torch.raise(("torch.version: no field '%s'%s"):format(tostring(name),
         require "tlua.utils.near".hint(tostring(name), fields)))
   end,
})
