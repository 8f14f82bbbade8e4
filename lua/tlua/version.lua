-- version.lua - torch.version: the versions of the library and of the libraries that it uses.

local torch = require "tlua"

local fields = {}

function fields.__version__() return torch.__version__ end
function fields.debug() return false end

-- Returns CUDA's version, such as "12.4"; nil if there is no usable device.
function fields.cuda()
   if not torch.cuda.is_available() then return nil end
   local version = torch.cuda._library_version "cuda"
   return version and ("%d.%d"):format(version // 1000, version % 1000 // 10)
end

function fields.hip() return nil end
function fields.xpu() return nil end
function fields.git_version() return nil end

--- The versions as fields: __version__ (tlua's), cuda, hip, xpu, git_version and debug. The version
--- of a missing library is nil.
---@names torch.version
return setmetatable({}, {
   names = fields,
   __index = function(_, name)
      local field = fields[name]
      if field then return field() end
      if type(name) == "string" and name:find "^__%a+$" then return nil end
      torch.raise(("torch.version: no field '%s'%s"):format(tostring(name),
         require "tlua.utils.suggest".hint(tostring(name), fields)))
   end,
})
