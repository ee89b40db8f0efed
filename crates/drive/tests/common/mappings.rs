//! Every mapping.

use seekless_drive::spec::Mapping;

/// All of them.
pub const MAPPINGS: [Mapping; 5] = [
    Mapping::Cylinder,
    Mapping::SerpentineZone,
    Mapping::Serpentine,
    Mapping::Surface,
    Mapping::SurfaceSerpentine,
];
