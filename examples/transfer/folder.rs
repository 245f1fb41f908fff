//! A folder of files, and how new ones get in.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// A folder that is removed with all that is in it when this is dropped.
pub struct TempFolder {
    path: PathBuf,
}

impl TempFolder {
    pub fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("nalix-transfer-{}-{}", std::process::id(), next()));
        fs::create_dir(&path)?;
        Ok(Self { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("{} is left behind: {error}", self.path.display());
        }
    }
}

/// The place of a file that is not whole yet: removed when this is dropped, unless it has been kept.
pub struct Partial {
    /// `None` once it is kept.
    path: Option<PathBuf>,
}

impl Partial {
    /// A new file beside the place where it is to be in the end.
    pub fn create(place: &Path) -> io::Result<(Self, fs::File)> {
        // Names of files that are received do not begin with a dot, so it can be none of them.
        let name = format!(".partial-{}-{}", std::process::id(), next());
        let path = place.with_file_name(name);
        let file = fs::File::create_new(&path)?;
        Ok((Self { path: Some(path) }, file))
    }

    /// Puts the file in its place. One that is there is replaced.
    pub fn keep(mut self, place: &Path) -> io::Result<()> {
        if let Some(path) = &self.path {
            fs::rename(path, place)?;
        }
        self.path = None;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(path) = &self.path
            && let Err(error) = fs::remove_file(path)
        {
            eprintln!("{} is left behind: {error}", path.display());
        }
    }
}

fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn names(folder: &TempFolder) -> Vec<String> {
        let entries = fs::read_dir(folder.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_is_in_its_place_when_it_is_whole() {
        let folder = TempFolder::new().unwrap();
        let place = folder.path().join("file");
        fs::write(&place, "old").unwrap();
        let (partial, mut file) = Partial::create(&place).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"old");
        partial.keep(&place).unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"new");
        assert_eq!(names(&folder), ["file"]);
    }

    #[test]
    fn a_file_that_is_given_up_leaves_nothing() {
        let folder = TempFolder::new().unwrap();
        let path = folder.path().to_owned();
        drop(Partial::create(&path.join("file")).unwrap());
        assert_eq!(names(&folder), [""; 0]);
        drop(folder);
        assert!(!path.exists());
    }
}
